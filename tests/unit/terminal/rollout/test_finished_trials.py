"""Finished trials survive the process that ran them: a resume takes them over bit for bit and runs only the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.finished import FinishedTrials
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult, group_tasks
from t1cli.terminal.rollout.result import TrialResult


def plan_of(doubles: SimpleNamespace, count: int = 4) -> RolloutPlan:
    return RolloutPlan(3, tuple(doubles.task_named(f"task{n}") for n in range(count)), accept=count)


def rollout(
    doubles: SimpleNamespace, directory: Path, store: FinishedTrials, finished: tuple[TrialResult, ...] = ()
) -> tuple[RolloutResult, list[str]]:
    engine = doubles.ScriptedEngine(lambda instruction: ["one", "two"])
    world = doubles.make_world(engine, directory)
    running = run_rollout(world, plan_of(doubles), finished=finished, on_trial=lambda trial: store.add(3, trial))
    return asyncio.run(running), engine.requests


def test_a_resume_runs_only_what_is_missing_and_keeps_the_rest_bit_for_bit(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    store = FinishedTrials(tmp_path / "finished")
    whole, _ = rollout(doubles, tmp_path / "a", store)
    lost = sorted((tmp_path / "finished" / "rollout_000003").glob("*.json"))[1]
    lost.unlink()
    kept = store.load(3, group_tasks(plan_of(doubles)), range(1, 2))
    assert len(kept) == 3
    again, requests = rollout(doubles, tmp_path / "b", store, kept)
    assert {request.rsplit("-t", 1)[0] for request in requests} == {lost.stem}
    assert again.ledger.unaccounted == 0 and len(again.rows) == len(whole.rows) == 4
    assert again.metrics["terminal/reward_mean"] == whole.metrics["terminal/reward_mean"]
    for row, before in zip(again.rows, whole.rows, strict=True):
        assert (row.trial_id, row.reward, row.weight_versions) == (
            before.trial_id,
            before.reward,
            before.weight_versions,
        )
        for name in ("tokens", "loss_mask", "log_probs", "routed_experts"):
            assert np.array_equal(getattr(row, name), getattr(before, name)), name


def test_a_complete_rollout_runs_nothing(doubles: SimpleNamespace, tmp_path: Path) -> None:
    store = FinishedTrials(tmp_path / "finished")
    rollout(doubles, tmp_path / "a", store)
    kept = store.load(3, group_tasks(plan_of(doubles)), range(1, 2))
    again, requests = rollout(doubles, tmp_path / "b", store, kept)
    assert len(again.accepted) == 4 and requests == []


@pytest.mark.parametrize(
    "damage", ["version", "task", "half a record", "rows changed", "rows missing", "another rollout"]
)
def test_what_does_not_fit_is_run_again(doubles: SimpleNamespace, tmp_path: Path, damage: str) -> None:
    store = FinishedTrials(tmp_path / "finished")
    rollout(doubles, tmp_path / "a", store)
    place = tmp_path / "finished" / "rollout_000003"
    record = sorted(place.glob("*.json"))[0]
    versions, tasks, expected = range(1, 2), group_tasks(plan_of(doubles)), 3
    if damage == "version":
        versions, expected = range(2, 4), 0
    elif damage == "task":
        tasks[12] = doubles.task_named("other")
    elif damage == "half a record":
        record.write_text(record.read_text()[:-30])
    elif damage == "rows changed":
        rows = record.with_suffix(".npz")
        rows.write_bytes(rows.read_bytes()[:-1] + b"x")
    elif damage == "rows missing":
        record.with_suffix(".npz").unlink()
    else:
        assert store.take_up(4, tasks, versions).trials == ()
        expected = 0
    assert len(store.load(3, tasks, versions)) == expected
    store.forget(3)
    assert not place.exists()
