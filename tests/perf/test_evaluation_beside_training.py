"""An evaluation of 89 tasks in its own event loop while training rollouts run, all on real local sandboxes (S7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from t1cli.embedded.template import TinyChatTemplate
from t1cli.spec.load import load_experiment
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.evaluate import EvaluationPlan, evaluate
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan
from t1cli.terminal.rollout.plan import RolloutResult
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.local import LocalProvider, bubblewrap_problem
from t1cli.terminal.tasks.generator import generate_pool, write_harbor
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task

from .many_trials import SPEC, Oracle

EVALUATED = 89
"""As many as the report's evaluation has."""
OVERRIDES = (
    "rollout.batch_size=8",
    "rollout.over_sampling_batch_size=12",
    "rollout.trial_wall_seconds=1800",
    "tasks.timeout_override_seconds=1800",
    "rollout.context_tokens=4000",
    "rollout.max_new_tokens_per_turn=400",
    "rollout.routing_replay=false",
    "sandbox.capacity=12",
    "sandbox.creation_per_second=40",
)


class Training:
    """Rollouts one after the other, in a thread and a loop of its own, until it is told to end."""

    def __init__(self, world: TrialWorld, tasks: tuple[Task, ...]) -> None:
        self.results: list[RolloutResult] = []
        self.ended_trials = 0
        self.began = threading.Event()
        self._world, self._tasks = world, tasks
        self._spec = load_experiment(SPEC, list(OVERRIDES)).spec
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._enough.is_set():
            plan = rollout_plan(self._spec, len(self.results), self._tasks)
            self.results.append(asyncio.run(run_rollout(self._world, plan, on_trial=self._note)))

    def _note(self, _: TrialResult) -> None:
        self.ended_trials += 1
        self.began.set()

    def __enter__(self) -> Training:
        self._thread.start()
        assert self.began.wait(600)
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(600)
        assert not self._thread.is_alive()


@pytest.fixture
def loops() -> set[int]:
    """Every event loop that asked for an engine."""
    return set()


@pytest.fixture
def world(tmp_path: Path, loops: set[int]) -> Iterator[TrialWorld]:
    """The quickstart's world: one provider, one set of places, one pace, for both loops."""
    spec = load_experiment(SPEC, list(OVERRIDES)).spec
    oracle = Oracle(load_pool(SPEC.parent / "tasks") + evaluated(tmp_path))

    @asynccontextmanager
    async def connect() -> AsyncIterator[Engine]:
        loops.add(id(asyncio.get_running_loop()))
        yield oracle

    provider = LocalProvider(spec.sandbox, tmp_path / "sandboxes")
    place = RunPlace("owner", "run", tmp_path / "trials")
    made = build_world(spec, provider=provider, template=TinyChatTemplate(), engine_url="http://unused", place=place)
    yield replace(made, connect=connect)
    asyncio.run(provider.close())
    assert not psutil.Process().children(recursive=True)
    assert {entry.name for entry in (tmp_path / "sandboxes").iterdir()} <= {"leases.jsonl", "python"}


def evaluated(directory: Path) -> tuple[Task, ...]:
    """89 tasks that the training pool does not have."""
    pool = directory / "evaluated"
    if not pool.is_dir():
        for task in generate_pool(EVALUATED, seed=89):
            write_harbor(task, pool)
    return load_pool(pool)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.catalogue("S7")
@pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap: {bubblewrap_problem()}")
def test_89_of_89_are_scored_beside_training_rollouts(world: TrialWorld, loops: set[int], tmp_path: Path) -> None:
    with Training(world, load_pool(SPEC.parent / "tasks")) as training:
        before = training.ended_trials
        result = evaluate(world, EvaluationPlan("beside", evaluated(tmp_path)))
        during = training.ended_trials - before
    lost = [trial.outcome for trial in result.trials if not trial.outcome.scored]
    print(f"{len(result.scored)} of {result.scheduled} scored, {during} training trials ended meanwhile; lost {lost}")
    assert result.complete and result.scheduled == EVALUATED
    assert result.metrics("held-out")["eval/held-out/check_rate"] == 1.0, "each by its own tests"
    # Trials of both live at once, in places that are handed out in the order asked for, and lose nothing by it.
    assert during >= 1 and len(loops) >= 2
    for rollout in training.results:
        assert len(rollout.accepted) == 8 and rollout.ledger.unaccounted == 0
        causes = {trial.outcome.cause for trial in rollout.trials if not trial.outcome.scored}
        assert causes <= {"over_sampled"} and rollout.metrics["terminal/check_rate"] == 1.0
    assert world.slots.in_use == 0 and world.verifiers.in_use == 0
