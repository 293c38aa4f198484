"""What is dropped because the weights that sampled it are too old, or gone: in the ledger's account of that name."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.finished import FinishedTrials
from t1cli.terminal.rollout.kept import KeepRule, Kept
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult, group_tasks


@pytest.mark.parametrize("most_rollouts", [1, 2])
def test_a_group_that_may_not_go_on_once_more_is_stale_and_not_surplus(
    doubles: SimpleNamespace, tmp_path: Path, most_rollouts: int
) -> None:
    """`slow` hangs in its second turn, rollout after rollout, until its oldest turn is too old; `new` is surplus."""

    async def whole() -> tuple[list[RolloutResult], int]:
        async def hangs(instruction: str, turn: int) -> None:
            if instruction in ("slow", "new") and turn:
                await asyncio.Event().wait()

        engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"], before=hangs)
        world, kept = doubles.make_world(engine, tmp_path), Kept()
        results = []
        for rollout_id in range(most_rollouts + 1):
            names = {0: "slow", 10 + rollout_id: f"t{rollout_id}"} | ({99: "new"} if rollout_id else {})
            plan = RolloutPlan(
                rollout_id,
                tuple(map(doubles.task_named, names.values())),
                accept=1,
                positions=tuple(names),
                keep=KeepRule(most_rollouts, most_trials=1),
            )
            results.append(await run_rollout(world, plan, kept=kept))
        for result in await kept.close("over"):
            engine.sampled -= result.sampled_tokens + result.lost_tokens
        assert not world.provider.alive
        return results, engine.sampled

    results, sampled = asyncio.run(whole())
    assert [result.kept for result in results[:-1]] == [(0,)] * most_rollouts
    assert all("staleness" not in result.ledger.accounts for result in results[:-1])
    last = results[-1].ledger
    (slow,) = (trial for trial in results[-1].trials if trial.plan.task.name == "slow")
    assert last.accounts["staleness"] == slow.sampled_tokens + slow.lost_tokens > 0
    assert all(result.ledger.unaccounted == 0 for result in results)
    assert sum(result.ledger.sampled for result in results) == sampled
    assert results[-1].metrics["terminal/masked_tokens/staleness"] == last.accounts["staleness"]


def test_trials_of_weights_that_a_resume_does_not_have_are_counted_and_booked(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    """An interrupted session left four finished trials of rollout 3, two of them by weights that are gone, and one of
    rollout 9."""
    tasks = tuple(doubles.task_named(f"task{n}") for n in range(4))
    plan, store = RolloutPlan(3, tasks, accept=4), FinishedTrials(tmp_path / "finished")
    first = doubles.make_world(doubles.ScriptedEngine(lambda _: ["one", "two"]), tmp_path / "a")
    left = asyncio.run(run_rollout(first, plan)).accepted
    of_gone = [replace(trial, rows=tuple(replace(row, weight_versions=(8,)) for row in trial.rows)) for trial in left]
    for trial in (*left[:2], *of_gone[2:]):
        store.add(3, trial)
    store.add(9, replace(left[0], plan=replace(left[0].plan, trial_id="other")))

    found = store.take_up(3, group_tasks(plan), range(1, 2))
    assert [trial.plan.trial_id for trial in found.trials] == [trial.plan.trial_id for trial in left[:2]]
    assert found.stale_tokens == sum(trial.sampled_tokens for trial in (*left[2:], left[0]))
    assert not (tmp_path / "finished" / "rollout_000009").exists()

    engine = doubles.ScriptedEngine(lambda _: ["one", "two"])
    world, plan = doubles.make_world(engine, tmp_path / "b"), replace(plan, stale_tokens=found.stale_tokens)
    result = asyncio.run(run_rollout(world, plan, finished=found.trials))
    assert result.ledger.accounts["staleness"] == found.stale_tokens and result.ledger.unaccounted == 0
    used_again = sum(trial.sampled_tokens for trial in found.trials)
    assert result.ledger.sampled == engine.sampled + used_again + found.stale_tokens


def test_nothing_left_is_nothing_stale(doubles: SimpleNamespace, tmp_path: Path) -> None:
    plan = RolloutPlan(0, (doubles.task_named("a"),), accept=1)
    found = FinishedTrials(tmp_path / "never").take_up(0, group_tasks(plan), range(1))
    assert (found.trials, found.stale_tokens) == ((), 0)
