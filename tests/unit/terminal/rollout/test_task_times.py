"""What takes longest starts first: measured times, what stands in for them, and a file that survives a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.plan import RolloutPlan
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.task_times import TaskTimes, expected_seconds, measured_in

SCORED = Outcome(True, StopReason.DONE)
CUT = Outcome(False, StopReason.FAILED, Boundary.CANCELLED, "over_sampled")
LOST = Outcome(False, StopReason.FAILED, Boundary.SANDBOX, "sandbox_agent")


def trial(task: object, outcome: Outcome, **seconds: float) -> TrialResult:
    return TrialResult(TrialPlan(task, "id", 0, 0, 0, 0), outcome, seconds=seconds)


def test_a_task_is_measured_by_what_it_did_and_not_by_waiting(doubles: SimpleNamespace) -> None:
    easy, hard, dead = (doubles.task_named(name) for name in ("easy", "hard", "dead"))
    found = measured_in(
        [
            trial(easy, SCORED, queue=900.0, agent=4.0, grade=2.0, verifier_queue=50.0),
            trial(easy, SCORED, agent=8.0),
            trial(easy, CUT, agent=500.0),
            trial(hard, CUT, agent=30.0),
            trial(hard, CUT, agent=70.0, queue=3.0),
            trial(dead, LOST, agent=99.0),
            trial(dead, CUT, queue=99.0),
        ]
    )
    assert {name: (one.seconds, one.whole) for name, one in found.items()} == {
        "easy": (7.0, True),
        "hard": (70.0, False),
    }


def test_the_latest_whole_measurement_counts_and_a_cut_one_only_raises_it(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    path = tmp_path / "trials/task_seconds.jsonl"
    task, other = doubles.task_named("task"), doubles.task_named("other")
    times = TaskTimes(path)
    for rollout_id, one in enumerate(
        [trial(task, SCORED, agent=50.0), trial(task, CUT, agent=9.0), trial(other, CUT, agent=20.0)]
    ):
        times.note(rollout_id, [one])
    assert times._seconds == {"task": 50.0, "other": 20.0}
    times.note(3, [trial(task, SCORED, agent=5.0), trial(other, CUT, agent=60.0)])
    with path.open("a") as file:
        file.write('{"rollout": 4, "seconds": {"task": [1')
    again = TaskTimes(path)
    assert again._seconds == times._seconds == {"task": 5.0, "other": 60.0}
    assert again.longest_first([task, other], [task, other]) == (1, 0)


def test_what_was_not_measured_is_expected_like_its_family_and_difficulty(doubles: SimpleNamespace) -> None:
    pool = [
        doubles.task_named("a1", "a", difficulty="easy"),
        doubles.task_named("a2", "a", difficulty="hard"),
        doubles.task_named("a3", "a", difficulty="hard"),
        doubles.task_named("a4", "a", difficulty="odd"),
        doubles.task_named("b1", "b", difficulty="easy"),
    ]
    assert expected_seconds(pool, pool, {"a1": 10.0, "a2": 40.0}) == [10.0, 40.0, 40.0, 25.0, 25.0]
    assert expected_seconds(pool, pool, {}) == [0.0] * 5


@given(st.lists(st.floats(0, 100) | st.none(), min_size=1, max_size=12))
def test_the_order_is_a_permutation_and_equals_stay_as_drawn(
    doubles: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory, seconds: list[float | None]
) -> None:
    tasks = [doubles.task_named(f"t{index}") for index in range(len(seconds))]
    times = TaskTimes(tmp_path_factory.getbasetemp() / "nothing-there.jsonl")
    times._seconds = {task.name: value for task, value in zip(tasks, seconds, strict=True) if value is not None}
    order = times.longest_first(tasks, tasks)
    expected = expected_seconds(tasks, tasks, times._seconds)
    assert sorted(order) == list(range(len(tasks)))
    assert list(order) == sorted(range(len(tasks)), key=lambda index: (-expected[index], index))


@pytest.mark.catalogue("S9")
def test_with_few_sandboxes_the_longest_begin_first(doubles: SimpleNamespace, tmp_path: Path) -> None:
    engine = doubles.ScriptedEngine(lambda _: ["echo a"])
    world = doubles.make_world(engine, tmp_path, slots=Slots(2))
    tasks = tuple(doubles.task_named(f"t{index}") for index in range(6))
    plan = RolloutPlan(0, tasks, accept=6, start_order=(5, 3, 1, 0, 2, 4))
    result = asyncio.run(run_rollout(world, plan))
    begun = [name.split("-")[2] for name in world.provider.made]
    assert begun == [f"g{index}" for index in (5, 3, 1, 0, 2, 4)]
    assert [trial.plan.group_id for trial in result.accepted] == list(range(6)), "and the batch is as it was drawn"
