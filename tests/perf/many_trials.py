"""All trials of a large rollout at once, each in a real local sandbox, created at a provider's pace in scaled time."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from t1cli.embedded.template import TinyChatTemplate
from t1cli.spec.load import load_experiment
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.harness.engine import Engine, Generation, Sampling
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan
from t1cli.terminal.rollout.pacing import Pace, Slots
from t1cli.terminal.rollout.plan import RolloutResult
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.sandbox.sandbox import Sandbox
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task
from tests.perf.promises import Promises

SPEC = Path(__file__).parents[2] / "experiments/quickstart/experiment.yaml"
PROVIDER_PER_SECOND = 6.0
SCALE = 10.0
"""How much faster than the provider's clock ours runs."""
LEAST_SCORED = 0.99
MOST_DESCRIPTORS = 6.0
KEPT = {"leases.jsonl", "python"}


@dataclass
class Watched:
    """A provider that notes when each sandbox was asked for, and what the driver holds open."""

    inner: LocalProvider
    created_seconds: list[float] = field(default_factory=list)
    most_descriptors: int = 0
    made: int = 0
    gone: int = 0
    most_live: int = 0

    async def create(self, name: str, *, owner: str) -> Sandbox:
        self.created_seconds.append(time.monotonic())
        sandbox = await self.inner.create(name, owner=owner)
        self.made += 1
        self.most_live = max(self.most_live, len(self.inner._live))
        self.most_descriptors = max(self.most_descriptors, len(os.listdir("/proc/self/fd")))
        return sandbox

    async def sweep(self, owner: str) -> tuple[str, ...]:
        return await self.inner.sweep(owner)

    async def close(self) -> None:
        await self.inner.close()


class Oracle:
    """Plays every task's own solution, a command a turn, and waits in between until all trials are live."""

    def __init__(self, tasks: tuple[Task, ...], together: Callable[[], bool] = lambda: True) -> None:
        self._template = TinyChatTemplate()
        self._lines = {self._template.render_task(task.instruction): _commands(task) for task in tasks}
        self._together = together

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        while not self._together():
            await asyncio.sleep(0.2)
        lines = next(lines for start, lines in self._lines.items() if prompt_ids[: len(start)] == start)
        turn = int(rid.rsplit("-t", 1)[1])
        ids = self._template.render_reply(lines[turn] if turn < len(lines) else "")
        return Generation(ids, (-0.1,) * len(ids), None, "stop", 1)

    def take_lost(self, rid: str) -> int:
        return 0


def _commands(task: Task) -> list[str]:
    return [line for line in (task.solution / "solve.sh").read_text().splitlines() if line and line[0] != "#"][1:]


@dataclass(frozen=True)
class Around:
    """What there is beside the sandboxes, before or after."""

    processes: frozenset[int]
    mounts: frozenset[str]
    temporary: frozenset[str]

    @classmethod
    def now(cls) -> Around:
        children = frozenset(child.pid for child in psutil.Process().children(recursive=True))
        mounts = frozenset(Path("/proc/self/mounts").read_text().splitlines())
        return cls(children, mounts, frozenset(os.listdir(tempfile.gettempdir())))


def many_trials(scratch: Path, count: int, promises: Promises) -> None:
    """All trials at once: scored, paced, few descriptors, nothing left."""
    before = Around.now()
    watched = Watched(LocalProvider(LocalSandbox(capacity=count), scratch / "sandboxes"))
    descriptors = len(os.listdir("/proc/self/fd"))
    began = time.monotonic()
    result = asyncio.run(_rollout(scratch, count, watched))
    _scored(result, count, time.monotonic() - began, promises)
    promises.check("live at once", watched.most_live, holds=watched.most_live == count)
    _paced(watched.created_seconds, promises)
    per_trial = (watched.most_descriptors - descriptors) / count
    found = f"{per_trial:.2f}, {MOST_DESCRIPTORS:g} allowed"
    promises.check("the driver's descriptors per trial", found, holds=per_trial <= MOST_DESCRIPTORS)
    left = _left(scratch / "sandboxes", before)
    promises.check("left behind", left, holds=not any(left.values()))


def _scored(result: RolloutResult, count: int, seconds: float, promises: Promises) -> None:
    lost = Counter(f"{t.outcome.boundary}/{t.outcome.cause}" for t in result.trials if not t.outcome.scored)
    # Of first attempts: a trial that is played again has been lost all the same.
    first = [trial for trial in result.trials if trial.plan.attempt == 0]
    scored = sum(trial.outcome.scored for trial in first) / count
    found = f"{scored:.1%} of {count} at the first attempt in {seconds:.0f} s; lost by cause: {dict(lost) or 'none'}"
    promises.check("trials scored", found, holds=len(first) == count and scored >= LEAST_SCORED)
    rate = result.metrics.get("terminal/check_rate", 0.0)
    promises.check("the oracle's tests passed", f"{rate:.1%}", holds=rate > 0.999)


def _paced(moments: list[float], promises: Promises) -> None:
    """Most creations in any one second of the provider's clock, and the pace of the whole."""
    width, moments = 1.0 / SCALE, sorted(moments)
    worst = max(sum(start <= moment < start + width for moment in moments) for start in moments)
    span_seconds = (moments[-1] - moments[0]) * SCALE
    found = f"at most {worst} in one of the provider's seconds, {PROVIDER_PER_SECOND + 1:g} allowed; "
    found += (
        f"{len(moments)} in {span_seconds:.0f} of its seconds, {(len(moments) - 1) / PROVIDER_PER_SECOND:.0f} at least"
    )
    promises.check("creations obey the bucket", found, holds=worst <= PROVIDER_PER_SECOND + 1)


def _left(sandboxes: Path, before: Around) -> dict[str, int]:
    after, leases = Around.now(), LeaseBook(sandboxes).leases()
    return {
        "processes": len(after.processes - before.processes)
        + sum(process.alive for lease in leases for process in lease.processes),
        "mounts": len(after.mounts - before.mounts),
        "directories": len({entry.name for entry in sandboxes.iterdir()} - KEPT)
        + len(after.temporary - before.temporary),
        "open leases": sum(not lease.closed for lease in leases),
    }


async def _rollout(scratch: Path, count: int, watched: Watched) -> RolloutResult:
    overrides = [
        f"rollout.batch_size={count}",
        "rollout.over_sampling_batch_size=null",
        "rollout.trial_wall_seconds=1800",
        "tasks.timeout_override_seconds=3000",
        "rollout.context_tokens=4000",
        "rollout.max_new_tokens_per_turn=400",
        "rollout.routing_replay=false",
    ]
    spec = load_experiment(SPEC, overrides).spec
    tasks = load_pool(SPEC.parent / "tasks")
    oracle = Oracle(tasks, lambda: watched.made >= count)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Engine]:
        yield oracle

    place = RunPlace("verify", "verify", scratch / "trials")
    world = build_world(spec, provider=watched, template=TinyChatTemplate(), engine_url="http://unused", place=place)
    world = replace(
        world,
        connect=connect,
        slots=Slots(count),
        pace=Pace(PROVIDER_PER_SECOND * SCALE),
        verifiers=Slots(os.cpu_count() or 1),
        routing="kept",
    )
    try:
        return await run_rollout(world, rollout_plan(spec, 0, tasks))
    finally:
        await watched.close()
