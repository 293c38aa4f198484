"""Harbor's Terminus-2 as the agent of a trial: real Harbor, real tmux, real verifier, and ids as they were sampled."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.spec.sandbox import HarborSandbox
from t1cli.terminal.harness.chat.command_template import CommandTemplate
from t1cli.terminal.harness.engine import Generation, Sampling
from t1cli.terminal.harness.hold import Hold
from t1cli.terminal.harness.load_harness import agent_maker
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.rollout.budgets import budgets_of
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.outcome import Boundary, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.sandbox.harbor.provider import HarborProvider
from t1cli.terminal.sandbox.harbor.terminus import ids_problem
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task

ROOT = Path(__file__).parents[4]
HARBOR_PYTHON = os.environ.get("T1_HARBOR_PYTHON", "")
WHY = bubblewrap_problem() or ("" if HARBOR_PYTHON else "T1_HARBOR_PYTHON names no interpreter with Harbor")
WHY = WHY or ("" if shutil.which("tmux") else "no tmux here, which a bubblewrap sandbox shows to its agent")

with_harbor = pytest.mark.skipif(bool(WHY), reason=WHY)


@dataclass
class Typist:
    """An engine that replies from a script, letter by letter: encoding the text would not give these ids."""

    renderer: Any
    replies: list[str]
    sampled: list[tuple[int, ...]] = field(default_factory=list)
    hold: Hold = field(default_factory=Hold)
    """Begins, for a second, while the second reply is sampled."""

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        if len(self.sampled) == 1 and not self.hold.times:
            asyncio.get_running_loop().call_later(1.0, self.hold.end)
            self.hold.begin()
            await asyncio.sleep(60.0)
        text = self.replies[len(self.sampled)]
        ids = tuple(token for letter in text for token in self.renderer.tokenizer.encode(letter))
        ids = (*ids, self.renderer.stop_ids[0])
        self.sampled.append(ids)
        log_probs = tuple(-0.01 * (1 + index) for index in range(len(ids)))
        return Generation(
            sampled_ids=ids, log_probs=log_probs, routed_experts=None, finish_reason="stop", weight_version=3
        )

    def take_lost(self, rid: str) -> int:
        return 0


def reply(*lines: str, done: bool = False) -> str:
    """As Terminus-2 wants it."""
    commands = [{"keystrokes": f"{line}\n", "duration": 0.5} for line in lines]
    return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": done})


def played(
    doubles: SimpleNamespace, engine: Typist, tmp_path: Path, task: Task, environment: str, **limits: Any
) -> TrialResult:
    """One trial of terminus-2 in a Harbor environment, graded by the task's own tests."""
    spec = HarborSandbox(environment=environment, python=HARBOR_PYTHON, capacity=1, creation_per_second=100.0)
    provider = HarborProvider(spec, tmp_path / "sandboxes")
    wide = {"context_tokens": 100_000, "max_new_tokens_per_turn": 4000, "observation_tokens": 4000, **limits}
    world = doubles.make_world(
        engine,
        tmp_path,
        provider=provider,
        template=CommandTemplate(engine.renderer),
        make_agent=agent_maker("terminus-2"),
        grade=grade,
        limits=doubles.replace(doubles.LIMITS, **wide),
        budgets=lambda task: budgets_of(task, wall_seconds=500.0, override_seconds=None),
        routing="kept",
        create_seconds=200.0,
    )
    plan = TrialPlan(task, trial_id="run1-t", group_id=7, sample=0, attempt=0, seed=1)

    async def run() -> TrialResult:
        try:
            return await Trial(world, plan, MeteredEngine(engine, engine.hold)).run()
        finally:
            await provider.close()

    result = asyncio.run(run())
    assert not [lease.name for lease in provider.book.leases() if not lease.closed]
    return result


@pytest.mark.slow
@with_harbor
def test_terminus_solves_a_task_and_every_id_is_the_sampled_one(
    doubles: SimpleNamespace, chat: SimpleNamespace, tmp_path: Path
) -> None:
    task = load_pool(ROOT / "experiments/quickstart/tasks")[0]
    lines = [line for line in (task.solution / "solve.sh").read_text().splitlines() if line and line[0] != "#"][1:]
    engine = Typist(chat.renderer_for("qwen3"), ["no JSON", reply(*lines), reply(done=True), reply(done=True)])
    kind = "t1cli.terminal.sandbox.harbor.bubblewrap:BubblewrapEnvironment"
    result = played(doubles, engine, tmp_path, task, kind)
    assert result.outcome.scored, result.outcome
    assert result.outcome.stop is StopReason.DONE
    assert result.verdict is not None and result.verdict.solved and result.verdict.processes_ended >= 1, "tmux"
    trained = [int(token) for row in result.rows for token, mask in zip(row.tokens, row.loss_mask, strict=True) if mask]
    assert trained == [token for ids in engine.sampled for token in ids]
    assert [row.audit.drifted_in_loss for row in result.rows] == [0] * len(result.rows)
    assert (result.turns, len(result.rows)) == (4, 1), "one chat that only grows"
    assert engine.hold.times == 1, "and went on after a hold"


@pytest.mark.slow
@with_harbor
def test_budgets_and_a_terminal_that_dies(
    doubles: SimpleNamespace, chat: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/contract/harbor_faults"))
    task = load_pool(ROOT / "experiments/quickstart/tasks")[0]
    kind = "t1cli.terminal.sandbox.harbor.bubblewrap:BubblewrapEnvironment"
    engine = Typist(chat.renderer_for("qwen3"), [reply("true")] * 9)
    result = played(doubles, engine, tmp_path / "turns", task, kind, max_turns=2)
    assert (result.outcome.scored, result.outcome.stop, result.turns) == (True, StopReason.TURNS, 2)
    # One id too few for the second turn.
    wall = result.notes[1].prompt_tokens + 4000 - 1
    engine = Typist(chat.renderer_for("qwen3"), [reply("true")] * 9)
    result = played(doubles, engine, tmp_path / "context", task, kind, context_tokens=wall)
    assert (result.outcome.scored, result.outcome.stop) == (True, StopReason.CONTEXT), result.outcome
    engine = Typist(chat.renderer_for("qwen3"), [])
    result = played(doubles, engine, tmp_path / "dead", task, "faulty_environments:WithoutTerminal")
    assert not result.outcome.scored and result.outcome.boundary in (Boundary.HARNESS, Boundary.SANDBOX)
    assert "rollout_details is empty" in result.outcome.detail or "cannot start" in result.outcome.detail


@pytest.mark.parametrize(
    ("details", "problem"),
    [
        (None, "rollout_details is empty"),
        ([], "rollout_details is empty"),
        ([{"prompt_token_ids": [[1]], "completion_token_ids": [[2, 3]], "logprobs": [[-1.0, -2.0]]}], ""),
        (
            [{"prompt_token_ids": [[1]], "completion_token_ids": [[2, 3]], "logprobs": [[-1.0]]}],
            "2 ids and 1 log-probs",
        ),
        ([{"prompt_token_ids": [[1], [1]], "completion_token_ids": [[2]], "logprobs": [[-1.0]]}], "unequal length"),
        ([{"completion_token_ids": [[2]], "logprobs": [[-1.0]]}], "unequal length"),
        ([{}], "unequal length"),
    ],
)
def test_ids_that_are_missing_or_do_not_match_are_told(details: list[dict[str, Any]] | None, problem: str) -> None:
    assert problem in ids_problem(details) and bool(problem) == bool(ids_problem(details))
