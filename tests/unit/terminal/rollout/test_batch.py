"""A rollout: over-sampling, refills, the deadline, the ledger, and what cancelling it leaves behind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.draw import draw
from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.plan import RolloutAborted, RolloutPlan
from t1cli.terminal.trajectory.routing import MissingRouting


def plan_of(doubles: SimpleNamespace, num_tasks: int, accept: int, **changes: object) -> RolloutPlan:
    tasks = tuple(doubles.task_named(f"t{index}", family=f"family{index % 3}") for index in range(num_tasks))
    return RolloutPlan(rollout_id=4, tasks=tasks, accept=accept, first_backoff_seconds=0.01, **changes)


def test_all_groups_are_scored_and_the_ledger_closes(doubles: SimpleNamespace, tmp_path: Path) -> None:
    engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"])
    world = doubles.make_world(engine, tmp_path, slots=Slots(3))
    seen = []
    result = asyncio.run(
        run_rollout(world, plan_of(doubles, 6, 6, samples_per_prompt=2), on_trial=lambda t: seen.append(t))
    )
    assert len(result.rows) == len(result.accepted) == len(seen) == 12 and not result.short
    assert [trial.plan.group_id for trial in result.accepted] == sorted([*range(24, 30), *range(24, 30)])
    assert result.ledger.unaccounted == 0 and result.ledger.sampled == engine.sampled
    assert result.ledger.accounts == {"trained": engine.sampled}
    assert world.provider.most_alive == 3 and not world.provider.alive
    lines = (tmp_path / "rollout_000004.jsonl").read_text().splitlines()
    assert len(lines) == 12
    assert json.loads(lines[0])["turns"][0]["reply"] == "echo a"


@pytest.mark.catalogue("S9")
def test_surplus_groups_are_cancelled_and_accounted_by_family(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def slow_family(instruction: str, turn: int) -> None:
        if instruction in ("t2", "t5") and turn == 1:
            await asyncio.sleep(60)

    engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"], before=slow_family)
    world = doubles.make_world(engine, tmp_path)
    result = asyncio.run(run_rollout(world, plan_of(doubles, 6, 4)))
    assert sorted(trial.plan.task.name for trial in result.accepted) == ["t0", "t1", "t3", "t4"]
    assert result.metrics["terminal/cancelled/family2"] == 2 and result.metrics["terminal/cancelled_share/family2"] == 1
    assert result.metrics["terminal/cancelled_share/family0"] == 0
    assert result.metrics["terminal/live_trials"] == 2, "both ran when the batch was full"
    assert result.metrics["terminal/selection_bias"] == pytest.approx(1 / 3)
    assert result.metrics["terminal/failed"] == 0 and result.metrics["terminal/non_trainable_ratio"] == 0
    # "echo a" and its end, and what the engine had sampled when the request was cut off.
    assert result.ledger.accounts["over_sampling"] == 2 * (7 + engine.lost_when_cancelled)
    assert result.ledger.unaccounted == 0 and result.ledger.sampled == engine.sampled
    assert not world.provider.alive


def test_groups_that_queue_behind_too_few_slots_are_cancelled_cleanly(doubles: SimpleNamespace, tmp_path: Path) -> None:
    engine = doubles.ScriptedEngine(lambda _: ["echo a"])
    world = doubles.make_world(engine, tmp_path, slots=Slots(1))
    result = asyncio.run(run_rollout(world, plan_of(doubles, 6, 2)))
    assert [trial.plan.task.name for trial in result.accepted] == ["t0", "t1"]
    assert len(result.trials) == 6 and world.slots.in_use == 0 and not world.provider.alive


def test_a_lost_trial_is_run_again_in_a_fresh_sandbox_and_never_repeats_a_command(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    failures = {"t1": 2, "t3": 1}

    async def fail_second_turn(instruction: str, turn: int) -> None:
        if turn == 1 and failures.get(instruction, 0):
            failures[instruction] -= 1
            raise EngineError("engine_http_500")

    engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"], before=fail_second_turn)
    world = doubles.make_world(engine, tmp_path)
    result = asyncio.run(run_rollout(world, plan_of(doubles, 4, 4)))
    assert len(result.rows) == 4
    assert {trial.plan.task.name: trial.plan.attempt for trial in result.accepted} == {
        "t0": 0,
        "t1": 2,
        "t2": 0,
        "t3": 1,
    }
    assert all(len(box.commands) == len(set(box.commands)) for box in world.provider.made.values())
    assert len(world.provider.made) == 7
    metrics = result.metrics
    assert metrics["terminal/total_samples"] == 7 and metrics["terminal/failed_by_cause/engine_http_500"] == 3
    assert metrics["terminal/non_trainable_ratio"] == pytest.approx(3 / 7)
    assert metrics["terminal/reward_mean"] == pytest.approx(0.1), "lost trials are no zeros in the mean"
    assert result.ledger.accounts["infrastructure"] == 3 * 7 and result.ledger.unaccounted == 0


def test_a_pool_that_never_comes_back_ends_in_a_short_rollout_or_an_abort(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    def world() -> object:
        broken = doubles.MemoryProvider(fail_creations=lambda name: "-g24-" in name or "-g25-" in name)
        return doubles.make_world(doubles.ScriptedEngine(lambda _: ["echo a"]), tmp_path, provider=broken)

    result = asyncio.run(run_rollout(world(), plan_of(doubles, 6, 6, refill_seconds=1.0, allow_short=True)))
    assert result.short and len(result.rows) == 4
    assert result.metrics["terminal/failed_by_boundary/provider"] >= 4
    with pytest.raises(RolloutAborted, match="provider/sandbox_create"):
        asyncio.run(run_rollout(world(), plan_of(doubles, 6, 6, refill_seconds=0.1)))
    dead = doubles.MemoryProvider(fail_creations=lambda name: True)
    nothing = doubles.make_world(doubles.ScriptedEngine(lambda _: []), tmp_path, provider=dead)
    with pytest.raises(RolloutAborted):
        asyncio.run(run_rollout(nothing, plan_of(doubles, 2, 2, refill_seconds=0.0, allow_short=True)))


def test_over_sampling_replaces_a_group_that_cannot_be_run_at_all(doubles: SimpleNamespace, tmp_path: Path) -> None:
    world = doubles.make_world(doubles.ScriptedEngine(lambda _: ["echo a"]), tmp_path)
    plan = plan_of(doubles, 3, 2)
    endless = doubles.task_named("x" * 5000)
    result = asyncio.run(run_rollout(world, doubles.replace(plan, tasks=(endless, *plan.tasks[1:]))))
    assert [trial.plan.task.name for trial in result.accepted] == ["t1", "t2"]
    assert [trial.outcome.cause for trial in result.trials if not trial.outcome.scored] == ["prompt_over_context"]


@pytest.mark.catalogue("F4")
def test_missing_routing_aborts_the_rollout_and_leaves_nothing(doubles: SimpleNamespace, tmp_path: Path) -> None:
    world = doubles.make_world(doubles.ScriptedEngine(lambda _: ["echo a"], routing=False), tmp_path)
    with pytest.raises(MissingRouting):
        asyncio.run(run_rollout(world, plan_of(doubles, 6, 6)))
    assert not world.provider.alive and world.slots.in_use == 0


def test_interrupting_a_rollout_at_any_step_leaves_no_sandbox_and_no_task(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    """Nothing here waits for a clock, so the event loop takes the same steps every time; each is interrupted once."""

    async def steps_of(steps: int | None) -> int:
        engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"])
        world = doubles.make_world(engine, tmp_path / str(steps), provider=doubles.MemoryProvider())
        rollout = asyncio.create_task(run_rollout(world, plan_of(doubles, 6, 6, samples_per_prompt=2)))
        taken = 0
        while taken != steps and not rollout.done():
            await asyncio.sleep(0)
            taken += 1
        if steps is not None:
            assert not rollout.done()
            rollout.cancel()
            with pytest.raises(asyncio.CancelledError):
                await rollout
        assert not world.provider.alive and world.slots.in_use == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return taken

    whole = asyncio.run(steps_of(None))
    assert whole > 20
    for steps in range(whole):
        asyncio.run(steps_of(steps))


def test_incomplete_groups_keep_their_valid_siblings_only_in_a_short_rollout(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    broken = doubles.MemoryProvider(fail_creations=lambda name: "-g8-s1-" in name)
    world = doubles.make_world(doubles.ScriptedEngine(lambda _: ["echo a"]), tmp_path, provider=broken)
    plan = plan_of(doubles, 2, 2, samples_per_prompt=2, refill_seconds=0.05, allow_short=True)
    result = asyncio.run(run_rollout(world, plan))
    assert result.short
    assert [(t.plan.group_id, t.plan.sample) for t in result.accepted] == [(8, 0), (9, 0), (9, 1)]


def test_a_draw_is_the_same_after_a_resume_and_covers_every_epoch(doubles: SimpleNamespace) -> None:
    tasks = [doubles.task_named(f"t{index}") for index in range(10)]
    drawn = [task.name for rollout in range(5) for task in draw(tasks, rollout_id=rollout, count=4, seed=3)]
    assert sorted(drawn[:10]) == sorted(drawn[10:20]) == sorted(task.name for task in tasks)
    assert drawn[:10] != drawn[10:20]
    assert [task.name for task in draw(tasks, rollout_id=3, count=4, seed=3)] == drawn[12:16]
    assert [t.name for t in draw(tasks, rollout_id=0, count=3, seed=3, shuffle=False)] == ["t0", "t1", "t2"]


def test_cancelled_trials_are_marked_by_boundary(doubles: SimpleNamespace, tmp_path: Path) -> None:
    world = doubles.make_world(doubles.ScriptedEngine(lambda _: ["echo a"]), tmp_path, slots=Slots(1))
    result = asyncio.run(run_rollout(world, plan_of(doubles, 3, 1)))
    cancelled = [trial.outcome for trial in result.trials if not trial.outcome.scored]
    assert [outcome.boundary for outcome in cancelled] == [Boundary.CANCELLED] * 2
    assert {outcome.cause for outcome in cancelled} == {"over_sampled"}
