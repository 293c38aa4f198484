"""One rollout: launch more groups than needed, keep the first that finish, refill what the infrastructure lost."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from t1cli.errors import T1Error
from t1cli.terminal.rollout.ledger import ledger_of
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.metrics import RolloutPopulation, rollout_metrics
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.rollout.trial_log import append_trial, log_path
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.audit import TokenLedger
from t1cli.terminal.trajectory.row import TrainingRow

OVER_SAMPLED = "over_sampled"
"""Cause of a trial that was cancelled because enough groups had finished."""
INTERRUPTED = "interrupted"
"""Cause of a trial that was cancelled because the rollout itself was."""
PERMANENT_CAUSES = frozenset({"prompt_over_context"})
"""Failures that another attempt at the same task would repeat."""


class RolloutAborted(T1Error):
    """Too few trials could be scored until the rollout's deadline."""


@dataclass(frozen=True)
class RolloutPlan:
    """What one rollout launches and how much of it is kept."""

    rollout_id: int
    tasks: tuple[Task, ...]
    """One group each, in launch order; more than `accept` when over-sampling."""
    accept: int
    """Groups that are kept."""
    samples_per_prompt: int = 1
    refill_seconds: float = 3600.0
    """Lost trials are run again until this long after the rollout's start."""
    allow_short: bool = False
    """Hand over fewer groups than `accept` when the deadline has passed, instead of aborting."""
    first_backoff_seconds: float = 0.5
    max_backoff_seconds: float = 30.0


@dataclass(frozen=True)
class RolloutResult:
    """What one rollout yields."""

    rollout_id: int
    rows: tuple[TrainingRow, ...]
    """Training data of the accepted groups, by group and sample."""
    accepted: tuple[TrialResult, ...]
    trials: tuple[TrialResult, ...]
    """All trials in the order they ended: accepted, surplus, lost and cancelled."""
    metrics: dict[str, float]
    ledger: TokenLedger
    seconds: float
    short: bool
    """Fewer groups than asked for."""


class PlayableTrial(Protocol):
    """A trial as a rollout handles it: `Trial` here, or one that is played on another node."""

    plan: TrialPlan

    def cancel(self, task: asyncio.Task[TrialResult], cause: str) -> None:
        """End the trial, running as `task`, with outcome cancelled."""
        ...

    def cancelled_result(self) -> TrialResult:
        """The result of a trial that was cancelled before its first step."""
        ...

    async def run(self) -> TrialResult:
        """Play it to its end."""
        ...


TrialMaker = Callable[[TrialWorld, TrialPlan, MeteredEngine], PlayableTrial]


async def run_rollout(
    world: TrialWorld,
    plan: RolloutPlan,
    *,
    on_trial: Callable[[TrialResult], None] | None = None,
    finished: Sequence[TrialResult] = (),
    make_trial: TrialMaker = Trial,
) -> RolloutResult:
    """Run one rollout to its end. Raises RolloutAborted, MissingRouting and WrongRouting; leaves nothing running.

    `finished` are scored trials of this very rollout that an interrupted session left: they count as they are.
    """
    async with world.connect() as engine:
        rollout = _Rollout(world, plan, MeteredEngine(engine), on_trial or (lambda _: None), make_trial)
        rollout.take_over(finished)
        return await rollout.run()


def group_tasks(plan: RolloutPlan) -> dict[int, Task]:
    """The task of every group that a rollout launches, by group id."""
    first = plan.rollout_id * len(plan.tasks)
    return {first + index: task for index, task in enumerate(plan.tasks)}


@dataclass
class _Group:
    task: Task
    scored: list[TrialResult] = field(default_factory=list)
    given_up: bool = False


class _Rollout:
    """The state of one rollout while it runs."""

    def __init__(
        self,
        world: TrialWorld,
        plan: RolloutPlan,
        engine: MeteredEngine,
        on_trial: Callable[[TrialResult], None],
        make_trial: TrialMaker,
    ) -> None:
        self.world, self.plan, self.engine, self.on_trial = world, plan, engine, on_trial
        self.make_trial = make_trial
        self.groups = {group_id: _Group(task) for group_id, task in group_tasks(plan).items()}
        self.taken_over: tuple[TrialResult, ...] = ()
        self.running: dict[asyncio.Task[TrialResult], PlayableTrial] = {}
        self.accepted: list[int] = []
        self.ended: list[TrialResult] = []

    def take_over(self, finished: Sequence[TrialResult]) -> None:
        """Count trials of an earlier session as finished, before anything is launched."""
        for result in finished:
            group = self.groups[result.plan.group_id]
            group.scored.append(result)
            self.ended.append(result)
            if len(group.scored) == self.plan.samples_per_prompt and len(self.accepted) < self.plan.accept:
                self.accepted.append(result.plan.group_id)
        self.taken_over = tuple(finished)

    async def run(self) -> RolloutResult:
        started = asyncio.get_running_loop().time()
        self.refill_until = started + self.plan.refill_seconds
        try:
            have = {(result.plan.group_id, result.plan.sample) for result in self.taken_over}
            for group_id in self.groups if len(self.accepted) < self.plan.accept else ():
                for sample in range(self.plan.samples_per_prompt):
                    if (group_id, sample) not in have:
                        self._launch(group_id, sample, attempt=0)
            while self.running and len(self.accepted) < self.plan.accept:
                await self._settle_next()
        except BaseException:
            await self._cancel_running(INTERRUPTED)
            raise
        await self._cancel_running(OVER_SAMPLED)
        return self._result(asyncio.get_running_loop().time() - started)

    def _launch(self, group_id: int, sample: int, attempt: int) -> None:
        trial = self.make_trial(self.world, self._trial_plan(group_id, sample, attempt), self.engine)
        task = asyncio.create_task(self._after_backoff(trial), name=trial.plan.trial_id)
        self.running[task] = trial

    def _trial_plan(self, group_id: int, sample: int, attempt: int) -> TrialPlan:
        within = f"r{self.plan.rollout_id}-g{group_id}-s{sample}-a{attempt}"
        return TrialPlan(
            task=self.groups[group_id].task,
            trial_id=f"{self.world.run_tag}-{within}",
            group_id=group_id,
            sample=sample,
            attempt=attempt,
            seed=int.from_bytes(hashlib.sha256(f"{self.world.seed}:{within}".encode()).digest()[:4], "big"),
        )

    async def _after_backoff(self, trial: PlayableTrial) -> TrialResult:
        if trial.plan.attempt:
            ceiling = self.plan.first_backoff_seconds * 2.0 ** min(trial.plan.attempt - 1, 20)
            try:
                await asyncio.sleep(min(self.plan.max_backoff_seconds, ceiling) * random.uniform(0.5, 1.0))
            except asyncio.CancelledError:
                return trial.cancelled_result()
        return await trial.run()

    async def _settle_next(self) -> None:
        done, _ = await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done, key=lambda task: self.running[task].plan.group_id):
            plan = self.running.pop(task).plan
            result = task.result()
            self._record(result)
            group = self.groups[plan.group_id]
            if result.outcome.scored:
                group.scored.append(result)
                if len(group.scored) == self.plan.samples_per_prompt and len(self.accepted) < self.plan.accept:
                    self.accepted.append(plan.group_id)
            elif result.outcome.cause in PERMANENT_CAUSES or self._past_refills():
                group.given_up = True
            else:
                self._launch(plan.group_id, plan.sample, plan.attempt + 1)

    def _past_refills(self) -> bool:
        return asyncio.get_running_loop().time() >= self.refill_until

    def _record(self, result: TrialResult) -> None:
        self.ended.append(result)
        append_trial(log_path(self.world.trials_dir, self.plan.rollout_id), result)
        self.on_trial(result)

    async def _cancel_running(self, cause: str) -> None:
        """Cancel what still runs, wait until all of it has cleaned up, and put it on record."""
        interrupted = False
        for task, trial in self.running.items():
            trial.cancel(task, cause)
        while pending := {task for task in self.running if not task.done()}:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError:
                interrupted = True
        for task, trial in self.running.items():
            if task.cancelled():
                # Cancelled before its first step.
                self._record(trial.cancelled_result())
            elif task.exception() is None:
                self._record(task.result())
        self.running.clear()
        if interrupted:
            raise asyncio.CancelledError

    def _result(self, seconds: float) -> RolloutResult:
        short = len(self.accepted) < self.plan.accept
        if short:
            self._accept_incomplete_groups()
        accepted = tuple(trial for group_id in sorted(self.accepted) for trial in self._by_sample(group_id))
        before_tokens = sum(result.sampled_tokens + result.lost_tokens for result in self.taken_over)
        ledger = ledger_of(self.ended, accepted, sampled_tokens=self.engine.sampled_tokens + before_tokens)
        rows = tuple(row for trial in accepted for row in trial.rows)
        population = RolloutPopulation(
            accepted=accepted, ended=tuple(self.ended), rows=rows, ledger=ledger, seconds=seconds
        )
        return RolloutResult(
            rollout_id=self.plan.rollout_id,
            rows=rows,
            accepted=accepted,
            trials=tuple(self.ended),
            metrics=rollout_metrics(population),
            ledger=ledger,
            seconds=seconds,
            short=short,
        )

    def _accept_incomplete_groups(self) -> None:
        """After the deadline valid siblings are all that a group has; without permission to be short, abort."""
        if self.plan.allow_short:
            self.accepted += [g for g, group in self.groups.items() if g not in self.accepted and group.scored]
        if not self.plan.allow_short or not self.accepted:
            causes = Counter(f"{t.outcome.boundary}/{t.outcome.cause}" for t in self.ended if not t.outcome.scored)
            listed = ", ".join(f"{cause} × {count}" for cause, count in causes.most_common(5))
            raise RolloutAborted(
                f"rollout {self.plan.rollout_id}: {len(self.accepted)} of {self.plan.accept} groups scored "
                f"after {self.plan.refill_seconds:g} s; lost: {listed or 'none'}",
                where=str(log_path(self.world.trials_dir, self.plan.rollout_id)),
                hint="read the trial log for the first detail of the most frequent cause",
            )

    def _by_sample(self, group_id: int) -> Sequence[TrialResult]:
        return sorted(self.groups[group_id].scored, key=lambda trial: trial.plan.sample)
