"""The real work behind the pipeline: rollouts over HTTP, steps in the trainer's process, and a record of it all."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from t1cli.embedded.metrics import Metrics
from t1cli.embedded.pipeline import Batch
from t1cli.embedded.processes import Processes
from t1cli.embedded.progress_line import progress_line
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.run.pause import hold_while_paused
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.harness.limits import evaluation_limits
from t1cli.terminal.rollout.evaluate import EvaluationPlan, run_evaluation
from t1cli.terminal.rollout.finished import FinishedTrials, Left
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult, group_tasks
from t1cli.terminal.rollout.series import RolloutSeries
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.store import save_rows

T = TypeVar("T")


@dataclass(frozen=True)
class Records:
    """Where a campaign writes down what happens."""

    run: RunDirectory
    metrics: MetricsWriter
    events: EventWriter
    progress: Callable[[str], None]


@dataclass(frozen=True)
class Pools:
    """What is drawn from."""

    training: tuple[Task, ...]
    evaluation: tuple[Task, ...]


class CampaignWork:
    """One campaign's work. `done` counts rollouts trained on, those of earlier sessions included."""

    def __init__(
        self, spec: ExperimentSpec, processes: Processes, world: TrialWorld, pools: Pools, records: Records
    ) -> None:
        self._spec, self._processes, self._world, self._pools = spec, processes, world, pools
        self._records = records
        self._server_end = asyncio.ensure_future(processes.server_end())
        self._score: float | None = None
        self._waiting_since = time.monotonic()
        self._unsaved = False
        self._finished = FinishedTrials(records.run.carried / "finished")
        self._series = RolloutSeries(spec, pools.training, records.run.carried)
        self.resumed_version: int | None = None
        """Version of the weights that a resumed session began with, until its first rollout has begun."""

    async def generate(self, rollout_id: int) -> RolloutResult:
        """Run one rollout; its rows are on disk before anybody trains on them. Waits while the run is paused."""
        note = lambda message: self._records.events.write(EventKind.NOTE, message=message)  # noqa: E731
        await hold_while_paused(self._records.run, note, is_over=self._server_end.done)
        with self._records.events.phase(self._phase("rollout")):
            plan = self._series.plan(rollout_id)
            left = self._left_by_an_earlier_session(plan)
            plan = replace(plan, stale_tokens=left.stale_tokens)
            running = self._series.run(
                self._world, plan, finished=left.trials, on_trial=lambda trial: self._finished.add(rollout_id, trial)
            )
            result = await until_ended(running, self._server_end)
            path = self._records.run.rollouts / f"rollout_{rollout_id:06d}.npz"
            await asyncio.to_thread(save_rows, path, result.rows)
            self._finished.forget(rollout_id)
        return result

    def _left_by_an_earlier_session(self, plan: RolloutPlan) -> Left:
        """Finished trials of the rollout that a session was interrupted in, if the very same weights sampled them."""
        version, self.resumed_version = self.resumed_version, None
        if version is None:
            return Left((), 0)
        left = self._finished.take_up(plan.rollout_id, group_tasks(plan), range(version, version + 1))
        if left.trials:
            self._records.events.write(EventKind.NOTE, message=f"{len(left.trials)} finished trials are used again")
        return left

    async def train(self, rollout_id: int, batch: Batch) -> Metrics:
        """One step; `perf/train_wait_time` is how long the trainer had been idle."""
        waited = time.monotonic() - self._waiting_since
        self._unsaved = True
        with self._records.events.phase(self._phase("train")):
            metrics = await self._processes.train(rollout_id, batch.rows)
        self._waiting_since = time.monotonic()
        step = waited + metrics["perf/train_time"]
        return metrics | {
            "perf/train_wait_time": waited,
            "perf/step_time": step,
            "perf/wait_time_ratio": waited / step,
        }

    async def publish(self) -> int:
        """New weights for the server."""
        with self._records.events.phase("publish"):
            return await self._processes.publish()

    async def save(self, done: int) -> None:
        """A checkpoint of every role, on record as events."""
        with self._records.events.phase("checkpoint"):
            saved = await self._processes.save(self._score)
        self._unsaved = False
        for role in saved:
            self._records.events.write(
                EventKind.CHECKPOINT, rollout=role.next_rollout, role=role.role, path=role.path, bytes=role.bytes
            )

    async def save_unsaved(self) -> bool:
        """Save what the last checkpoint does not hold; False when there is nothing new.

        The trainer works through its calls in order, so a step that was under way is finished first.
        """
        if self._unsaved:
            await self.save(0)
            return True
        return False

    async def rollout_ended(self, rollout_id: int, batch: Batch, metrics: Metrics) -> None:
        """Metrics, event, progress line and, where due, an evaluation."""
        assert isinstance(batch, RolloutResult)
        merged = {**metrics, **batch.metrics}
        train = {name: value for name, value in merged.items() if name.startswith("train/")}
        rest = {name: value for name, value in merged.items() if name not in train}
        self._records.metrics.rollout(rollout_id, rest)
        self._records.metrics.train(rollout_id, train)
        self._records.events.write(EventKind.ROLLOUT_ENDED, rollout=rollout_id)
        self._records.progress(progress_line(rollout_id + 1, self._spec.rollout.num_rollouts, merged))
        await self._evaluate_if_due(rollout_id)
        self._note_score(merged)

    async def close(self) -> None:
        """Stop watching the server, and end what waits for a rollout that does not come."""
        self._server_end.cancel()
        await self._series.close()

    def stop_requested(self) -> bool:
        """Whether the run's stop request exists."""
        return self._records.run.stop_request.exists()

    async def evaluate(self, rollout_id: int) -> None:
        """The spec's evaluation on the weights that the server has now, under its own budgets."""
        evaluation = self._spec.evaluation
        assert evaluation is not None
        world = replace(self._world, limits=evaluation_limits(evaluation, self._spec.rollout))
        plan = EvaluationPlan(
            tag=f"{evaluation.name}-{rollout_id}",
            tasks=self._pools.evaluation,
            repeats=evaluation.repeats,
            infrastructure_retries=evaluation.infrastructure_retries,
        )
        with self._records.events.phase("evaluation"):
            result = await until_ended(run_evaluation(world, plan), self._server_end)
        metrics = result.metrics(evaluation.name)
        self._score = metrics.get(f"eval/{evaluation.name}")
        self._records.metrics.eval(max(rollout_id, 0), metrics)
        rate = metrics.get(f"eval/{evaluation.name}/check_rate", math.nan)
        self._records.progress(
            f"evaluation {evaluation.name}: checks {rate:.0%}, {len(result.scored)} of {result.scheduled} trials scored"
        )

    async def _evaluate_if_due(self, rollout_id: int) -> None:
        evaluation, done = self._spec.evaluation, rollout_id + 1
        if evaluation is None:
            return
        every = evaluation.every_rollouts or self._spec.checkpoint.every_rollouts
        if done % every == 0 or done == self._spec.rollout.num_rollouts:
            await self.evaluate(rollout_id)

    def _note_score(self, metrics: Mapping[str, float]) -> None:
        named = self._spec.checkpoint.retention.metric
        if named is not None and math.isfinite(metrics.get(named, math.nan)):
            self._score = metrics[named]

    def _phase(self, name: str) -> str:
        # Phases that overlap each see the CPU seconds of both, so the name says that they do.
        return f"{name} (overlapped)" if self._spec.rollout.pipeline == "one_step" else name


async def until_ended(work: Coroutine[None, None, T], end: asyncio.Future[None]) -> T:
    """The result of `work`; when `end` fails first, `work` is cancelled, waited for, and that failure raised."""
    task = asyncio.ensure_future(work)
    either: set[asyncio.Future[T] | asyncio.Future[None]] = {task, end}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            # Without the server every trial would be lost, refilled and lost again until the rollout's deadline.
            end.result()
        return await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
