"""Trials that go on in the next rollout: exact to the token, in their own sandbox, within the staleness cap."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.kept import KeepRule, Kept, KeptGroup, RunningTrial, chosen
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult
from t1cli.terminal.rollout.series import RolloutSeries
from t1cli.terminal.sandbox.pool.background_loop import BackgroundLoop
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.versions import LagRule, VersionClock, lag_rule, require_spans

QUICKSTART = Path(__file__).parents[4] / "experiments/quickstart/experiment.yaml"
SCRIPT = ["echo a", "echo b", "echo c"]


def versioned(doubles: SimpleNamespace, **settings: Any) -> Any:
    """The scripted engine with weights that a test may publish."""

    class Versioned(doubles.ScriptedEngine):
        version = 1

        async def generate(self, prompt_ids: tuple[int, ...], **asked: Any) -> Any:
            version = self.version
            return replace(await super().generate(prompt_ids, **asked), weight_version=version)

    return Versioned(lambda _: SCRIPT, **settings)


class Gate:
    """Holds the replies of `slow` back, from one turn on, until it is opened."""

    def __init__(self, names: set[str], turn: int) -> None:
        self.names, self.turn, self.open = names, turn, asyncio.Event()

    async def __call__(self, instruction: str, turn: int) -> None:
        if instruction in self.names and turn >= self.turn:
            await self.open.wait()


def plan_of(doubles: SimpleNamespace, rollout_id: int, positions: list[int], **changes: Any) -> RolloutPlan:
    tasks = tuple(doubles.task_named(f"t{position}") for position in positions)
    return RolloutPlan(rollout_id, tasks, changes.pop("accept", 2), positions=tuple(positions), **changes)


def same_data(one: TrainingRow, other: TrainingRow) -> bool:
    """Whether two rows hold the same ids, mask, log-probs and routing."""
    arrays = ("tokens", "loss_mask", "log_probs", "routed_experts")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


async def two_rollouts(
    doubles: SimpleNamespace, world: Any, engine: Any, gate: Gate, between: Callable[[Kept], Awaitable[None]]
) -> tuple[RolloutResult, RolloutResult]:
    """t2 is slow in the first and goes on in the second."""
    kept = Kept()
    rule = KeepRule(most_rollouts=1, most_trials=4)
    first = await run_rollout(world, plan_of(doubles, 0, [0, 1, 2], keep=rule), kept=kept)
    await between(kept)
    engine.version = 2
    gate.open.set()
    second = await run_rollout(world, plan_of(doubles, 1, [2, 3, 4], accept=3, keep=rule), kept=kept)
    assert not kept.positions
    return first, second


@pytest.mark.catalogue("S9")
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_trial_that_goes_on_is_the_trial_that_was_never_stopped(
    doubles: SimpleNamespace, tmp_path: Path, turn: int
) -> None:
    async def whole() -> None:
        gate = Gate({"t2"}, turn)
        engine = versioned(doubles, before=gate)
        world = doubles.make_world(engine, tmp_path)

        async def between(kept: Kept) -> None:
            assert kept.positions == {2} and world.slots.in_use == 1 and len(world.provider.alive) == 1
            assert not any(engine.lost.values()), "what was cut off is counted"

        first, second = await two_rollouts(doubles, world, engine, gate, between)
        assert [t.plan.task.name for t in first.accepted] == ["t0", "t1"]
        assert first.kept == first.unfinished == (2,)
        assert first.metrics["terminal/held_trials"] == 1 and first.metrics["terminal/live_trials"] == 1
        row = next(row for row in second.rows if row.task == "t2")
        straight = await run_rollout(world, plan_of(doubles, 7, [2], accept=1))
        assert same_data(row, straight.rows[0]) and row.weight_versions == (1,) * turn + (2,) * (4 - turn)
        assert row.group_id == 3 and row.audit.strict == 4 and row.audit.drifted_in_loss == 0
        boxes = [box for name, box in world.provider.made.items() if "-r0-g2-" in name]
        assert [box.commands for box in boxes] == [SCRIPT], "one sandbox, every command once"
        assert second.metrics["terminal/rows_of_several_versions"] == 1
        assert first.ledger.unaccounted == second.ledger.unaccounted == straight.ledger.unaccounted == 0
        assert first.ledger.sampled + second.ledger.sampled + straight.ledger.sampled == engine.sampled
        assert second.ledger.accounts["over_sampling"] == engine.lost_when_cancelled, "the reply that was cut off"
        assert not world.provider.alive and world.slots.in_use == 0

    asyncio.run(whole())


def test_a_trial_that_ends_while_it_waits_counts_in_the_next_rollout(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        gate, graded = Gate(set(), 0), asyncio.Event()

        async def grade(task: Any, sandbox: Any, **more: Any) -> Any:
            if task.name == "t2":
                await graded.wait()
            return await doubles.grade_by_commands(task, sandbox, **more)

        engine = versioned(doubles)
        world = doubles.make_world(engine, tmp_path, grade=grade)

        async def between(kept: Kept) -> None:
            graded.set()
            (running,) = (trial for group in kept._groups for trial in group.running)
            await asyncio.wait({running.task})
            assert running.result().outcome.scored and not world.provider.alive

        first, second = await two_rollouts(doubles, world, engine, gate, between)
        row = next(row for row in second.rows if row.task == "t2")
        assert row.group_id == 3 and row.weight_versions == (1, 1, 1, 1)
        assert "over_sampling" not in second.ledger.accounts
        assert first.ledger.sampled + second.ledger.sampled == engine.sampled

    asyncio.run(whole())


def test_a_sandbox_that_is_lost_on_hold_is_replaced_in_the_next_rollout(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    async def whole() -> None:
        gate = Gate({"t2"}, 1)
        engine = versioned(doubles, before=gate)
        world = doubles.make_world(engine, tmp_path)

        async def between(kept: Kept) -> None:
            async def gone(command: str, **more: Any) -> Any:
                raise doubles.SandboxError("its machine is gone")

            (box,) = (box for name, box in world.provider.made.items() if "-r0-g2-" in name)
            box.exec = gone

        _, second = await two_rollouts(doubles, world, engine, gate, between)
        lost = [trial for trial in second.trials if not trial.outcome.scored]
        assert [(t.outcome.boundary, t.plan.group_id) for t in lost] == [(Boundary.SANDBOX, 3)]
        row = next(row for row in second.rows if row.task == "t2")
        assert row.weight_versions == (2, 2, 2, 2) and second.ledger.unaccounted == 0
        assert not world.provider.alive

    asyncio.run(whole())


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock a test may put forward."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def test_time_on_hold_is_not_the_trials(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        gate = Gate({"t2"}, 1)
        engine = versioned(doubles, before=gate)
        world = doubles.make_world(engine, tmp_path)

        async def between(kept: Kept) -> None:
            asyncio.get_running_loop().skipped = 1e5
            await asyncio.sleep(0)

        _, second = await two_rollouts(doubles, world, engine, gate, between)
        trial = next(trial for trial in second.accepted if trial.plan.task.name == "t2")
        assert trial.outcome.stop == "done" and trial.turns == 4 and trial.seconds["agent"] < 1e4

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(whole())


def test_a_held_trial_still_meets_its_deadline(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        gate = Gate({"t2"}, 1)
        engine = versioned(doubles, before=gate)
        world = doubles.make_world(engine, tmp_path)

        async def between(kept: Kept) -> None:
            gate.open = asyncio.Event()
            asyncio.get_running_loop().call_later(0.2, lambda: setattr(asyncio.get_running_loop(), "skipped", 1e5))

        kept, rule = Kept(), KeepRule(1, 4)
        await run_rollout(world, plan_of(doubles, 0, [0, 1, 2], keep=rule), kept=kept)
        await between(kept)
        second = await run_rollout(world, plan_of(doubles, 1, [2], accept=1, keep=rule), kept=kept)
        (trial,) = second.accepted
        assert trial.outcome.stop == "wall" and trial.turns == 1
        assert second.ledger.accounts["truncation"] == engine.lost_when_cancelled
        assert second.ledger.accounts["over_sampling"] == engine.lost_when_cancelled

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(whole())


def test_only_so_many_are_kept_and_only_so_long(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        gate = Gate({"t2", "t3", "t4"}, 1)
        engine = versioned(doubles, before=gate)
        world = doubles.make_world(engine, tmp_path)
        kept, rule = Kept(), KeepRule(most_rollouts=1, most_trials=2)
        first = await run_rollout(world, plan_of(doubles, 0, [0, 1, 2, 3, 4], keep=rule), kept=kept)
        assert len(first.kept) == 2 and len(first.unfinished) == 3 and world.slots.in_use == 2
        assert first.metrics["terminal/cancelled"] == 1
        second = await run_rollout(world, plan_of(doubles, 1, [2, 3, 4, 5, 6], keep=rule), kept=kept)
        # What went on once may not go on again; the third, which began anew, may.
        assert len(second.kept) == 1 and len(second.unfinished) == 3
        assert [t.rollouts for t in kept._groups] == [1]
        results = await kept.close("interrupted")
        assert [result.outcome.boundary for result in results] == [Boundary.CANCELLED]
        assert not world.provider.alive and world.slots.in_use == 0

    asyncio.run(whole())


def test_what_has_no_place_in_the_next_rollout_is_ended_and_booked(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        engine = versioned(doubles, before=Gate({"t2", "t3"}, 1))
        world = doubles.make_world(engine, tmp_path)
        kept, rule = Kept(), KeepRule(1, 4)
        plan = plan_of(doubles, 0, [0, 1, 2, 3], samples_per_prompt=2, keep=rule)
        first = await run_rollout(world, plan, kept=kept)
        second = await run_rollout(world, plan_of(doubles, 1, [4, 5]), kept=kept)
        assert len(second.accepted) == 2 and second.ledger.unaccounted == 0
        assert first.ledger.sampled + second.ledger.sampled == engine.sampled
        assert not world.provider.alive and world.slots.in_use == 0

    asyncio.run(whole())


def test_every_node_keeps_half_of_its_places_free(doubles: SimpleNamespace) -> None:
    def group(place: int, node: str, tokens: int) -> KeptGroup:
        async def nothing() -> None:
            return None

        elsewhere = SimpleNamespace(node=node, nodes=2, hold=nothing, go_on=nothing)
        trial = RunningTrial(None, elsewhere, None, MeteredEngine(None), elsewhere_tokens=tokens)
        return KeptGroup(place, 1, (), (trial,))

    groups = [group(index, "one" if index < 6 else "two", 100 - index) for index in range(8)]
    kept = chosen(groups, KeepRule(most_rollouts=1, most_trials=8))
    assert [one.position for one in kept] == [0, 1, 2, 3, 6, 7], "16 places, 8 a node"


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_interrupting_a_rollout_that_goes_on_with_trials_leaves_nothing(
    doubles: SimpleNamespace, tmp_path: Path, steps: int
) -> None:
    async def whole() -> None:
        engine = versioned(doubles, before=Gate({"t2", "t3"}, 1))
        world = doubles.make_world(engine, tmp_path, provider=doubles.MemoryProvider(0.001))
        kept, rule = Kept(), KeepRule(1, 4)
        await run_rollout(world, plan_of(doubles, 0, [0, 1, 2, 3], keep=rule), kept=kept)
        second = asyncio.create_task(run_rollout(world, plan_of(doubles, 1, [2, 3, 4, 5], keep=rule), kept=kept))
        for _ in range(steps):
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait({second})
        await kept.close("interrupted")
        assert not world.provider.alive and world.slots.in_use == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(whole())


@lru_cache
def spec_of(unfinished: str, samples: int, staleness: int) -> ExperimentSpec:
    """Two groups of four are accepted, six times."""
    over = [
        "rollout.batch_size=2",
        "rollout.over_sampling_batch_size=4",
        f"rollout.samples_per_prompt={samples}",
        f"rollout.unfinished={unfinished}",
        f"rollout.max_staleness={staleness}",
        "rollout.pipeline=sync",
        "rollout.num_rollouts=6",
        "sandbox.capacity=16",
        "tasks.shuffle=false",
    ]
    return load_experiment(QUICKSTART, over).spec


def test_trials_on_hold_outlive_the_loop_of_whoever_asks_for_rollouts(doubles: SimpleNamespace, tmp_path: Path) -> None:
    """slime asks for every rollout in a call of its own, which ends its event loop."""
    opened = threading.Event()

    async def before(instruction: str, turn: int) -> None:
        while instruction == "t2" and turn and not opened.is_set():
            await asyncio.sleep(0.001)

    engine = versioned(doubles, before=before)
    world, kept, loop = doubles.make_world(engine, tmp_path), Kept(), BackgroundLoop("test-rollouts")
    plans = [
        plan_of(doubles, 0, [0, 1, 2], keep=KeepRule(1, 4)),
        plan_of(doubles, 1, [2, 3]),
    ]
    try:
        first = asyncio.run(loop.run(run_rollout(world, plans[0], kept=kept)))
        opened.set()
        engine.version = 2
        second = asyncio.run(loop.run(run_rollout(world, plans[1], kept=kept)))
    finally:
        loop.close()
    assert first.kept == (2,) and second.metrics["terminal/rows_of_several_versions"] == 1
    assert first.ledger.sampled + second.ledger.sampled == engine.sampled and not world.provider.alive


def test_a_campaign_that_stops_ends_what_it_kept_and_says_so(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        names = {f"t{index}" for index in range(2, 4)}
        world = doubles.make_world(versioned(doubles, before=Gate(names, 1)), tmp_path)
        tasks = [doubles.task_named(f"t{index}") for index in range(40)]
        series = RolloutSeries(spec_of("continue", 1, 1), tasks, tmp_path)
        result = await series.run(world, series.plan(0))
        assert len(result.kept) == len(world.provider.alive) == 2
        await series.close()
        assert not world.provider.alive and world.slots.in_use == 0
        logged = [json.loads(line) for line in (tmp_path / "rollout_000000.jsonl").read_text().splitlines()]
        assert {line["task"] for line in logged if line["cause"] == "interrupted"} == names
        # A resume draws their prompts again, first.
        assert RolloutSeries(spec_of("continue", 1, 1), tasks, tmp_path).plan(1).positions == (2, 3, 4, 5)

    asyncio.run(whole())


DELAYS = st.sampled_from([0, 0, 1, 3, 10, 40, 150])


@pytest.mark.catalogue("S9")
@settings(max_examples=40, deadline=None)
@given(
    delays=st.lists(st.tuples(DELAYS, DELAYS), min_size=6, max_size=6),
    unfinished=st.sampled_from(["drop", "repeat", "continue"]),
    samples=st.integers(1, 2),
    staleness=st.integers(1, 3),
)
def test_over_a_campaign_every_prompt_and_token_has_one_end(
    doubles: SimpleNamespace, delays: list[tuple[int, int]], unfinished: str, samples: int, staleness: int
) -> None:
    spec = spec_of(unfinished, samples, staleness if unfinished == "continue" else 0)
    tasks = [doubles.task_named(f"t{index}") for index in range(40)]

    async def before(instruction: str, turn: int) -> None:
        for _ in range(delays[int(instruction[1:]) % 6][turn] if turn < 2 else 0):
            await asyncio.sleep(0)

    async def whole(place: Path) -> None:
        engine = versioned(doubles, before=before)
        world = doubles.make_world(engine, place, slots=Slots(16))
        series, clock = RolloutSeries(spec, tasks, place), VersionClock(lag_rule(spec.rollout))
        accepted: Counter[int] = Counter()
        ended: list[str] = []
        expected: list[int] = []
        sampled = 0
        for rollout_id in range(6):
            plan = series.plan(rollout_id)
            assert list(plan.positions[: len(expected)]) == expected, "what was left comes first"
            assert plan == RolloutSeries(spec, tasks, place).plan(rollout_id), "also after a resume"
            result = await series.run(world, plan)
            clock.lag(rollout_id, result.rows)
            accepted.update({plan.positions[trial.plan.group_id - 4 * rollout_id] for trial in result.accepted})
            ended += [trial.plan.trial_id for trial in result.trials]
            assert len({trial.plan.group_id for trial in result.accepted}) == 2
            assert Counter(row.group_id for row in result.rows) == Counter(
                dict.fromkeys({trial.plan.group_id for trial in result.accepted}, samples)
            )
            assert result.ledger.unaccounted == 0
            sampled += result.ledger.sampled
            left = [plan.positions[index] for index in result.unfinished]
            again = (
                {one.position for one in series._draws.before(rollout_id + 1, 4).again}
                if unfinished != "drop"
                else set()
            )
            assert again <= set(left) and {plan.positions[index] for index in result.kept} <= again
            expected = [position for position in plan.positions if position in again]
            engine.version += 1
        await series.close()
        assert sampled == engine.sampled, "nothing is kept beyond the last rollout"
        assert len(ended) == len(set(ended)) and set(accepted.values()) <= {1}
        assert not world.provider.alive and world.slots.in_use == 0

    with tempfile.TemporaryDirectory() as place:
        asyncio.run(whole(Path(place)))


def test_how_far_versions_may_lie_apart() -> None:
    assert LagRule("sync", 2, continues=True).allowed_span == 2
    assert LagRule("one_step", 2, continues=True).allowed_span == 1
    assert [LagRule("sync", 0).allowed_span, LagRule("one_step", 1).allowed_span] == [0, 0]
    assert LagRule("one_step", 3, continues=True).expected(5) == range(1, 4)
    assert require_spans([], LagRule("sync", 1, continues=True)) is None
