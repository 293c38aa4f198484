"""Rollouts on real local sandboxes and the real verifier: the oracle earns what it should, nothing stays."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from t1cli.spec.load import load_experiment
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan
from t1cli.terminal.rollout.kept import KeepRule, Kept
from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.plan import RolloutPlan
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.local import LocalProvider, bubblewrap_problem
from t1cli.terminal.sandbox.sandbox import Sandbox
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task

QUICKSTART = Path(__file__).parents[4] / "experiments/quickstart"

pytestmark = pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap: {bubblewrap_problem()}")


@pytest.fixture
def pool() -> tuple[Task, ...]:
    return load_pool(QUICKSTART / "tasks")


def solution_of(pool: tuple[Task, ...]) -> Callable[[str], list[str]]:
    lines = {
        task.instruction: [
            line for line in (task.solution / "solve.sh").read_text().splitlines() if line and line[0] != "#"
        ][1:]
        for task in pool
    }
    return lambda instruction: lines[instruction]


def world_on(
    doubles: SimpleNamespace, tmp_path: Path, engine: object, wrap: Callable[[Sandbox], Sandbox] = lambda s: s
) -> tuple[TrialWorld, LocalProvider, object]:
    """The quickstart's world with a scripted engine; `wrap` may put a fault in front of a sandbox."""
    spec = load_experiment(QUICKSTART / "experiment.yaml", ["rollout.batch_size=6", "rollout.context_tokens=4000"]).spec
    provider = LocalProvider(spec.sandbox, tmp_path / "sandboxes")

    class Wrapped:
        async def create(self, name: str, *, owner: str) -> Sandbox:
            return wrap(await provider.create(name, owner=owner))

    @asynccontextmanager
    async def connect() -> AsyncIterator[object]:
        yield engine

    world = build_world(
        spec,
        provider=Wrapped(),
        template=doubles.ByteTemplate(),
        engine_url="http://unused",
        place=RunPlace("owner", "run", tmp_path / "trials"),
    )
    limits = doubles.replace(world.limits, max_new_tokens_per_turn=400)
    return doubles.replace(world, connect=connect, limits=limits), provider, spec


def sandbox_processes() -> list[psutil.Process]:
    return [process for process in psutil.Process().children(recursive=True) if "bwrap" in process.name()]


def test_the_oracle_earns_every_check_and_nothing_is_left(
    doubles: SimpleNamespace, tmp_path: Path, pool: tuple[Task, ...]
) -> None:
    seen: list[int] = []

    def count(sandbox: Sandbox) -> Sandbox:
        seen.append(len(sandbox_processes()))
        return sandbox

    world, _, spec = world_on(doubles, tmp_path, doubles.ScriptedEngine(solution_of(pool)), count)
    result = asyncio.run(run_rollout(world, rollout_plan(spec, 0, pool)))
    assert len(seen) == 6 and min(seen) >= 1, "live sandboxes are seen as processes"
    assert len(result.accepted) == 6 and all(trial.verdict.ctrf == "ok" for trial in result.accepted)
    assert result.metrics["terminal/check_rate"] == 1.0 and result.metrics["terminal/solved_rate"] == 1.0
    assert all(trial.reward.value == trial.plan.task.expected_tests / 20 for trial in result.accepted)
    assert result.ledger.unaccounted == 0
    assert not sandbox_processes()


def test_doing_nothing_earns_less_than_everything(
    doubles: SimpleNamespace, tmp_path: Path, pool: tuple[Task, ...]
) -> None:
    world, _, spec = world_on(doubles, tmp_path, doubles.ScriptedEngine(lambda _: []))
    result = asyncio.run(run_rollout(world, rollout_plan(spec, 0, pool)))
    assert len(result.accepted) == 6 and result.metrics["terminal/solved_rate"] == 0.0
    assert result.metrics["terminal/check_rate"] < 1.0


def test_a_sandbox_that_dies_while_a_command_runs_is_replaced_and_never_scored_zero(
    doubles: SimpleNamespace, tmp_path: Path, pool: tuple[Task, ...]
) -> None:
    """The first sandbox of every second group is killed from outside in the middle of its first command."""

    class Killed:
        def __init__(self, inner: Sandbox) -> None:
            self.inner, self.name = inner, inner.name

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        async def exec(self, command: str, **options: object) -> object:
            running = asyncio.create_task(self.inner.exec("sleep 20", **options))
            await asyncio.sleep(0.1)
            init = self.inner._inner._holder.init.pid
            os.kill(init, signal.SIGKILL)
            return await running

    def wrap(sandbox: Sandbox) -> Sandbox:
        group = int(sandbox.name.rsplit("-g", 1)[1].split("-")[0])
        return Killed(sandbox) if group % 2 == 0 and sandbox.name.endswith("-a0") else sandbox

    world, _, spec = world_on(doubles, tmp_path, doubles.ScriptedEngine(solution_of(pool)), wrap)
    plan = doubles.replace(rollout_plan(spec, 0, pool), first_backoff_seconds=0.01)
    result = asyncio.run(run_rollout(world, plan))
    lost = [trial for trial in result.trials if not trial.outcome.scored]
    assert {trial.outcome.boundary for trial in lost} == {Boundary.SANDBOX} and len(lost) == 3
    assert result.metrics["terminal/check_rate"] == 1.0 and len(result.accepted) == 6
    assert not sandbox_processes()


class Reporting:
    """A sandbox that says when one of its methods is called for the first time, just before it does it."""

    def __init__(self, inner: Sandbox, moment: str, reached: asyncio.Event) -> None:
        self.inner, self.name, self.moment, self.reached = inner, inner.name, moment, reached
        if moment == "created":
            reached.set()

    def __getattr__(self, name: str) -> object:
        if name == self.moment:
            self.reached.set()
        return getattr(self.inner, name)


@pytest.mark.parametrize("moment", ["asked", "created", "exec", "end_processes", "close"])
def test_an_interrupted_rollout_leaves_no_process_and_no_open_lease(
    doubles: SimpleNamespace, tmp_path: Path, pool: tuple[Task, ...], moment: str
) -> None:
    """While sandboxes are being made, agents work, tests are run (which ends processes first), and sandboxes end."""

    async def run() -> None:
        reached = asyncio.Event()
        world, provider, spec = world_on(
            doubles,
            tmp_path,
            doubles.ScriptedEngine(solution_of(pool)),
            lambda sandbox: Reporting(sandbox, moment, reached),
        )
        task = asyncio.create_task(run_rollout(world, rollout_plan(spec, 0, pool)))
        if moment == "asked":
            while not any(lease.name for lease in provider.leases.leases()):
                await asyncio.sleep(0)
        else:
            await asyncio.wait_for(reached.wait(), 300)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not provider._live
        assert not sandbox_processes()

    asyncio.run(run())


@pytest.mark.catalogue("S9")
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_trial_on_hold_keeps_its_machine_until_it_goes_on_or_the_campaign_ends(
    doubles: SimpleNamespace, tmp_path: Path, pool: tuple[Task, ...], goes_on: bool
) -> None:
    """The oracle's solution, half of it before and half after: every check passes, so nothing of the first is lost."""
    slow = max(pool, key=lambda task: len(solution_of(pool)(task.instruction)))
    tasks = (*[task for task in pool if task is not slow][:2], slow)

    async def run() -> None:
        opened = asyncio.Event()

        async def before(instruction: str, turn: int) -> None:
            if instruction == slow.instruction and turn:
                await opened.wait()

        engine = doubles.ScriptedEngine(solution_of(pool), before=before)
        world, provider, _ = world_on(doubles, tmp_path, engine)
        kept = Kept()
        first = await run_rollout(world, RolloutPlan(0, tasks, 2, positions=(0, 1, 2), keep=KeepRule(1, 2)), kept=kept)
        assert first.kept == (2,) and len(provider._live) == 1 and sandbox_processes()
        opened.set()
        if goes_on:
            second = await run_rollout(world, RolloutPlan(1, (slow,), 1, positions=(2,)), kept=kept)
            (trial,) = second.accepted
            assert trial.reward.accuracy == 1.0 and trial.turns == len(solution_of(pool)(slow.instruction)) + 1
            assert trial.plan.trial_id.endswith("-r0-g2-s0-a0") and second.ledger.unaccounted == 0
        else:
            (result,) = await kept.close("interrupted")
            assert result.outcome.cause == "interrupted"
        assert not provider._live and not sandbox_processes()
        assert all(lease.closed for lease in provider.leases.leases())

    asyncio.run(run())
