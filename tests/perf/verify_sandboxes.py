"""`make verify-sandboxes`: what local sandboxes do at full size. One line per promise; exit 1 when one is broken.

512 trials at once through the rollout room, each in a real sandbox, verifiers capped at the core count, creation paced
as a provider of 6 a second would (in scaled time); then 500 generated tasks checked, against the same runs in a plain
loop.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import resource
import shutil
import sys
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
from t1cli.terminal.rollout.batch import RolloutResult, run_rollout
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan
from t1cli.terminal.rollout.pacing import Pace, Slots
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.sandbox.sandbox import Sandbox
from t1cli.terminal.tasks.check_pool import check_pool, task_directories
from t1cli.terminal.tasks.generator import main as generate
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.tasks.vet import vet

SPEC = Path(__file__).parents[2] / "experiments/quickstart/experiment.yaml"
PROVIDER_PER_SECOND = 6.0
SCALE = 10.0
"""How much faster than the provider's clock ours runs."""


@dataclass
class Promises:
    """What held and what did not."""

    broken: int = 0

    def check(self, name: str, found: object, *, holds: bool) -> None:
        """Print one promise with its figure."""
        self.broken += not holds
        print(f"{'holds ' if holds else 'BROKEN'}  {name}: {found}", flush=True)


@dataclass
class Watched:
    """A provider that notes when each sandbox was asked for, and what the driver holds open."""

    inner: LocalProvider
    created_seconds: list[float] = field(default_factory=list)
    most_descriptors: int = 0
    most_live: int = 0
    live: int = 0

    async def create(self, name: str, *, owner: str) -> Sandbox:
        self.created_seconds.append(time.monotonic())
        self.live += 1
        self.most_live = max(self.most_live, self.live)
        self.most_descriptors = max(self.most_descriptors, len(os.listdir("/proc/self/fd")))
        return await self.inner.create(name, owner=owner)

    async def sweep(self, owner: str) -> tuple[str, ...]:
        return await self.inner.sweep(owner)

    async def close(self) -> None:
        await self.inner.close()


class Oracle:
    """Plays every task's own solution, a command a turn, and waits in between until all trials are live."""

    def __init__(self, tasks: tuple[Task, ...], together: Callable[[], bool]) -> None:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--tasks", type=int, default=500)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    promises = Promises()
    with tempfile.TemporaryDirectory(prefix="t1-verify-") as scratch:
        many_trials(Path(scratch), given.trials, promises)
        many_tasks(Path(scratch), given.tasks, promises)
    return 1 if promises.broken else 0


def many_trials(scratch: Path, count: int, promises: Promises) -> None:
    """All trials at once: scored, paced, few descriptors, nothing left."""
    before = _left_behind()
    provider = LocalProvider(LocalSandbox(capacity=count), scratch / "sandboxes")
    watched = Watched(provider)
    began = time.monotonic()
    descriptors = len(os.listdir("/proc/self/fd"))
    result = asyncio.run(_rollout(scratch, count, watched))
    seconds = time.monotonic() - began
    lost = Counter(f"{t.outcome.boundary}/{t.outcome.cause}" for t in result.trials if not t.outcome.scored)
    scored = len(result.accepted) / count
    promises.check(
        "trials scored",
        f"{scored:.1%} of {count} in {seconds:.0f} s; lost {dict(lost) or 'none'}",
        holds=scored >= 0.99,
    )
    promises.check("live at once", watched.most_live, holds=watched.most_live == count)
    per_second = PROVIDER_PER_SECOND * SCALE
    worst = _worst_window(watched.created_seconds, SCALE)
    allowed = per_second / SCALE + 1
    promises.check(
        "creations obey the bucket",
        f"at most {worst} in one of the provider's seconds, {allowed:g} allowed",
        holds=worst <= allowed,
    )
    per_trial = (watched.most_descriptors - descriptors) / count
    promises.check("descriptors per trial", f"{per_trial:.2f}", holds=per_trial <= 6)
    rate = result.metrics.get("terminal/check_rate", 0.0)
    promises.check("the oracle's tests passed", f"{rate:.1%}", holds=rate > 0.999)
    after = _left_behind()
    places = [entry.name for entry in (scratch / "sandboxes").iterdir() if entry.is_dir() and entry.name != "python"]
    left = {"processes": after[0] - before[0], "mounts": after[1] - before[1], "directories": len(places)}
    promises.check("left behind", left, holds=not any(left.values()))


async def _rollout(scratch: Path, count: int, watched: Watched) -> RolloutResult:
    overrides = [
        f"rollout.batch_size={count}",
        "rollout.over_sampling_batch_size=null",
        "rollout.trial_wall_seconds=900",
    ]
    overrides += [
        "tasks.timeout_override_seconds=3000",
        "rollout.context_tokens=4000",
        "rollout.max_new_tokens_per_turn=400",
        "rollout.routing_replay=false",
    ]
    spec = load_experiment(SPEC, overrides).spec
    tasks = load_pool(SPEC.parent / "tasks")
    oracle = Oracle(tasks, lambda: watched.live >= count)

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


def many_tasks(scratch: Path, count: int, promises: Promises) -> None:
    """A pool checked, against the same oracle and no-op runs in a plain loop."""
    pool = scratch / "pool"
    with contextlib.redirect_stdout(io.StringIO()):
        generate([str(pool), "--count", str(count), "--seed", "7"])
    broken = sorted(pool.iterdir())[::20]
    for task in broken:
        (task / "solution" / "solve.sh").write_text("#!/bin/sh\ntrue\n")
    seconds = {}
    for name, run in (("bare", _bare), ("check", _check)):
        provider = LocalProvider(LocalSandbox(), scratch / f"tasks-{name}")
        began = time.monotonic()
        found = asyncio.run(run(pool, provider))
        seconds[name] = time.monotonic() - began
        if name == "check":
            right = set(found) == {task.name for task in broken}
            promises.check("verdicts of tasks", f"{len(found)} of {count} bad, {len(broken)} planted", holds=right)
    ratio = seconds["check"] / seconds["bare"]
    figures = f"{ratio:.2f} x ({seconds['check']:.0f} s against {seconds['bare']:.0f} s)"
    promises.check("cost of the check", figures, holds=ratio <= 1.5)
    shutil.rmtree(pool)


async def _bare(pool: Path, provider: LocalProvider) -> list[str]:
    places = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(task: Task) -> None:
        async with places:
            await vet(task, provider)

    await asyncio.gather(*(one(task) for task in load_pool(pool)))
    await provider.close()
    return []


async def _check(pool: Path, provider: LocalProvider) -> list[str]:
    found = await check_pool(task_directories(pool), provider)
    await provider.close()
    return [task.name for task in found.tasks if not task.ok]


def _worst_window(moments: list[float], scale: float) -> int:
    """Most creations in any one second of the provider's clock."""
    width = 1.0 / scale
    return max(sum(start <= moment < start + width for moment in moments) for start in moments)


def _left_behind() -> tuple[int, int]:
    children = psutil.Process().children(recursive=True)
    sandboxes = [child for child in children if "bwrap" in child.name() or "sleep" in child.name()]
    return len(sandboxes), len(Path("/proc/self/mounts").read_text().splitlines())


if __name__ == "__main__":
    sys.exit(main())
