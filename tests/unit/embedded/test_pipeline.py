"""Who waits for whom: overlap and lag of the pipelines, with real weight versions on every turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from t1cli.embedded.metrics import Metrics
from t1cli.embedded.pipeline import STALENESS, Batch, Schedule, run_pipeline
from t1cli.errors import T1Error
from t1cli.terminal.trajectory.row import TrainingRow

MakeRows = Callable[..., list[TrainingRow]]


@dataclass(frozen=True)
class FakeBatch:
    rows: list[TrainingRow]


@dataclass
class FakeWork:
    """A server and a trainer that count versions. Several turns per trial read the server's version one by one."""

    rows: list[TrainingRow]
    stop_after_save: bool = False
    server_version: int = 0
    trainer_version: int = 0
    generating: int = 0
    log: list[str] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    saves: list[int] = field(default_factory=list)
    fail_training_at: int | None = None

    async def generate(self, rollout_id: int) -> Batch:
        self.generating += 1
        self.log.append(f"generate {rollout_id} begins")
        turns = []
        try:
            for _ in range(3):
                turns.append(self.server_version)
                await asyncio.sleep(0.002)
        finally:
            self.generating -= 1
            self.log.append(f"generate {rollout_id} ends")
        return FakeBatch([replace(row, weight_versions=tuple(turns)) for row in self.rows])

    async def train(self, rollout_id: int, batch: Batch) -> Metrics:
        self.log.append(f"train {rollout_id} begins")
        await asyncio.sleep(0.004)
        if rollout_id == self.fail_training_at:
            raise T1Error("broken")
        versions = {version for row in batch.rows for version in row.weight_versions}
        assert len(versions) == 1, "a batch spans two weight versions"
        self.lags.append(self.trainer_version - versions.pop())
        self.trainer_version += 1
        self.log.append(f"train {rollout_id} ends")
        return {STALENESS: self.lags[-1]}

    async def publish(self) -> int:
        assert self.generating == 0, "weights were published under a running generation"
        self.server_version = self.trainer_version
        return self.server_version

    async def save(self, done: int) -> None:
        self.saves.append(done)

    async def rollout_ended(self, rollout_id: int, batch: Batch, metrics: Metrics) -> None:
        self.log.append(f"rollout {rollout_id} ended")

    def stop_requested(self) -> bool:
        return self.stop_after_save


def overlaps(work: FakeWork, trained: int, generated: int) -> bool:
    """Whether a generation began before a training step ended, and ended after that step had begun."""
    at = work.log.index
    return at(f"generate {generated} begins") < at(f"train {trained} ends") and at(f"train {trained} begins") < at(
        f"generate {generated} ends"
    )


def test_one_step_generates_ahead_and_lags_by_exactly_one(synthetic_rows: MakeRows) -> None:
    work = FakeWork(synthetic_rows(3, seed=1))
    assert asyncio.run(run_pipeline(work, Schedule(0, 5, 2, one_step=True))) == 5
    assert work.lags == [0, 1, 1, 1, 1]
    assert all(overlaps(work, trained, trained + 1) for trained in range(4))
    assert work.saves == [2, 4, 5]
    assert "generate 5 begins" not in work.log, "nothing is generated beyond the last rollout"


def test_one_step_starts_without_lag_after_a_resume(synthetic_rows: MakeRows) -> None:
    work = FakeWork(synthetic_rows(3, seed=1), server_version=7, trainer_version=7)
    assert asyncio.run(run_pipeline(work, Schedule(7, 10, 100, one_step=True))) == 10
    assert work.lags == [0, 1, 1] and work.log[0] == "generate 7 begins"


def test_sync_never_overlaps_and_never_lags(synthetic_rows: MakeRows) -> None:
    work = FakeWork(synthetic_rows(3, seed=1))
    assert asyncio.run(run_pipeline(work, Schedule(0, 4, 2, one_step=False))) == 4
    assert work.lags == [0, 0, 0, 0]
    assert not any(overlaps(work, trained, trained + 1) for trained in range(3))


@pytest.mark.parametrize("one_step", [False, True])
def test_a_stop_request_ends_after_the_next_save(synthetic_rows: MakeRows, one_step: bool) -> None:
    work = FakeWork(synthetic_rows(2, seed=1), stop_after_save=True)
    assert asyncio.run(run_pipeline(work, Schedule(0, 9, 3, one_step=one_step))) == 3
    assert work.saves == [3] and work.generating == 0 and work.log[-1] == "rollout 2 ended"


def test_a_failed_step_ends_the_generation_ahead(synthetic_rows: MakeRows) -> None:
    work = FakeWork(synthetic_rows(2, seed=1), fail_training_at=1)
    with pytest.raises(T1Error, match="broken"):
        asyncio.run(run_pipeline(work, Schedule(0, 5, 9, one_step=True)))
    assert work.generating == 0 and work.log.count("generate 2 begins") == work.log.count("generate 2 ends") == 1


def test_a_wrong_lag_is_an_error_not_a_bias(synthetic_rows: MakeRows) -> None:
    work = FakeWork(synthetic_rows(2, seed=1), trainer_version=2)
    with pytest.raises(T1Error, match="2 weight versions before"):
        asyncio.run(run_pipeline(work, Schedule(0, 2, 9, one_step=False)))


def test_trials_that_were_carried_over_may_lag_further_and_no_more(synthetic_rows: MakeRows) -> None:
    assert (
        asyncio.run(
            run_pipeline(
                FakeWork(synthetic_rows(2, seed=1), trainer_version=2), Schedule(0, 2, 9, False, carried_span=2)
            )
        )
        == 2
    )
    with pytest.raises(T1Error, match="3 weight versions before the trainer's, expected 0 to 2"):
        asyncio.run(
            run_pipeline(
                FakeWork(synthetic_rows(2, seed=1), trainer_version=3), Schedule(0, 2, 9, False, carried_span=2)
            )
        )


def test_a_finished_campaign_has_nothing_to_do(synthetic_rows: MakeRows) -> None:
    work = FakeWork(synthetic_rows(2, seed=1))
    assert asyncio.run(run_pipeline(work, Schedule(5, 5, 2, one_step=True))) == 5 and work.log == []
