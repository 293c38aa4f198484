"""The order of a campaign's work: generate, train, publish; one after the other, or generation one step ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from t1cli.embedded.metrics import Metrics
from t1cli.errors import T1Error
from t1cli.run.rollout_number import rollout_number
from t1cli.terminal.trajectory.row import TrainingRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STALENESS = "train/staleness"
"""Metric: trainer's weight version minus the version that sampled the batch's oldest turn."""


class Batch(Protocol):
    """What one rollout yields; the pipeline looks at the rows alone."""

    @property
    def rows(self) -> Sequence[TrainingRow]: ...


class Work(Protocol):
    """The parts that a pipeline puts in order."""

    async def generate(self, rollout_id: int) -> Batch:
        """Run one rollout against the weights published last."""
        ...

    async def train(self, rollout_id: int, batch: Batch) -> Metrics:
        """One step on one batch."""
        ...

    async def publish(self) -> int:
        """Give the server the trainer's weights while nothing is being generated; returns their version."""
        ...

    async def save(self, done: int) -> None:
        """Write a checkpoint after `done` rollouts."""
        ...

    async def rollout_ended(self, rollout_id: int, batch: Batch, metrics: Metrics) -> None:
        """A rollout was generated, trained on and published."""
        ...

    def stop_requested(self) -> bool:
        """Whether somebody asked for an end after the next save."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Which rollouts run, and after which ones is saved."""

    first: int
    end: int
    save_every: int
    one_step: bool
    carried_span: int = 0
    """Versions that trials carried over from earlier rollouts may be older than the others."""

    def saves_after(self, rollout_id: int) -> bool:
        """Whether a checkpoint follows this rollout: on the cadence, and always after the last."""
        return (rollout_id + 1) % self.save_every == 0 or rollout_id + 1 == self.end

    def lags_of(self, rollout_id: int) -> range:
        """Versions that a batch's oldest turn may be behind the trainer.

        None under sync and for the first batch after a start, unless trials are carried over.
        """
        lag = 1 if self.one_step and rollout_id > self.first else 0
        return range(lag, lag + self.carried_span + 1)


async def run_pipeline(work: Work, schedule: Schedule) -> int:
    """Work through a schedule; returns the number of rollouts done. Stops early after a save if asked."""
    if schedule.first >= schedule.end:
        return schedule.first
    batch: Batch | None = None
    for rollout_id in range(schedule.first, schedule.end):
        batch = await work.generate(rollout_id) if batch is None else batch
        ahead = schedule.one_step and rollout_id + 1 < schedule.end
        async with _generating(work, rollout_id + 1 if ahead else None) as following:
            metrics = await work.train(rollout_id, batch)
            _check_lag(rollout_id, metrics, schedule)
            stop = schedule.saves_after(rollout_id) and work.stop_requested()
            next_batch = None if following is None or stop else await following
        # Here nothing is being generated, so no request can span two weight versions.
        await work.publish()
        await work.rollout_ended(rollout_id, batch, metrics)
        if schedule.saves_after(rollout_id):
            await work.save(rollout_id + 1)
        if stop:
            return rollout_id + 1
        batch = next_batch
    return schedule.end


@asynccontextmanager
async def _generating(work: Work, rollout_id: int | None) -> AsyncIterator[asyncio.Task[Batch] | None]:
    """The next rollout in the background; ended, with all it started, when the block is left without its result."""
    if rollout_id is None:
        yield None
        return
    task = asyncio.create_task(_start(work, rollout_id), name=f"rollout-{rollout_id}")
    try:
        yield task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def _start(work: Work, rollout_id: int) -> Batch:
    return await work.generate(rollout_id)


def _check_lag(rollout_id: int, metrics: Metrics, schedule: Schedule) -> None:
    found, expected = metrics[STALENESS], schedule.lags_of(rollout_id)
    if found not in expected:
        wanted = f"{expected.start}" if len(expected) == 1 else f"{expected.start} to {expected.stop - 1}"
        raise T1Error(
            f"rollout {rollout_number(rollout_id)} was sampled {found:g} weight versions before the trainer's, "
            f"expected {wanted}: the importance ratio would compare the wrong policies"
        )
