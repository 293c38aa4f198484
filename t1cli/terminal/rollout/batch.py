"""One rollout: launch more groups than needed, keep the first that finish, refill what the infrastructure lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from t1cli.terminal.backoff import backoff_seconds
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.harness.hold import Hold
from t1cli.terminal.rollout.group_filter import Drops
from t1cli.terminal.rollout.kept import (
    Kept,
    KeptGroup,
    PlayableTrial,
    RunningTrial,
    chosen,
    ended,
    relabelled,
)
from t1cli.terminal.rollout.ledger import ledger_of
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.metrics import RolloutPopulation, rollout_metrics
from t1cli.terminal.rollout.plan import RolloutAborted, RolloutPlan, RolloutResult, group_tasks
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.rollout.trial_log import append_trial, log_path
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.seeds import seed_of
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.audit import Account

OVER_SAMPLED = "over_sampled"
"""Cause of a trial that was cancelled because enough groups had finished."""
INTERRUPTED = "interrupted"
"""Cause of a trial that was cancelled because the rollout itself was."""
PERMANENT_CAUSES = frozenset({"prompt_over_context"})
"""Failures that another attempt at the same task would repeat."""


TrialMaker = Callable[[TrialWorld, TrialPlan, MeteredEngine], PlayableTrial]


async def run_rollout(
    world: TrialWorld,
    plan: RolloutPlan,
    *,
    on_trial: Callable[[TrialResult], None] | None = None,
    finished: Sequence[TrialResult] = (),
    make_trial: TrialMaker = Trial,
    kept: Kept | None = None,
) -> RolloutResult:
    """Run one rollout to its end. Raises RolloutAborted, MissingRouting and WrongRouting.

    `finished` are scored trials of this very rollout that an interrupted session left: they count as they are. `kept`
    is what the last rollout left on hold; what this one leaves is in it afterwards, and nothing else still runs.
    """
    kept = kept or Kept()
    async with world.connect() as engine:
        rollout = _Rollout(world, plan, engine, on_trial or (lambda _: None), make_trial)
        rollout.take_over(finished)
        return await rollout.run(kept)


@dataclass
class _Group:
    task: Task
    position: int
    scored: list[TrialResult] = field(default_factory=list)
    given_up: bool = False
    rollouts: int = 0
    """Earlier rollouts that it ran in."""


class _Rollout:
    """The state of one rollout while it runs."""

    def __init__(
        self,
        world: TrialWorld,
        plan: RolloutPlan,
        engine: Engine,
        on_trial: Callable[[TrialResult], None],
        make_trial: TrialMaker,
    ) -> None:
        self.world, self.plan, self.engine, self.on_trial = world, plan, engine, on_trial
        self.make_trial = make_trial
        positions = plan.positions or range(len(plan.tasks))
        tasks = group_tasks(plan)
        self.groups = {
            group_id: _Group(tasks[group_id], position) for group_id, position in zip(tasks, positions, strict=True)
        }
        self.running: dict[asyncio.Task[TrialResult], RunningTrial] = {}
        self.engines: dict[str, MeteredEngine] = {}
        """By trial id: what each of this rollout's trials sampled."""
        self.drops = Drops(world.drops)
        self.accepted: list[int] = []
        self.ended: list[TrialResult] = []
        self.kept: tuple[KeptGroup, ...] = ()
        self.stale: list[int] = []
        """Groups that cannot go on once more: their oldest turns would be too many weight versions old."""

    def take_over(self, finished: Sequence[TrialResult]) -> None:
        """Count trials of an earlier session as finished, before anything is launched."""
        for result in finished:
            engine = MeteredEngine(self.engine)
            # Of another session's engine, so the trial's own count is all there is.
            engine.sampled_tokens = result.sampled_tokens + result.lost_tokens
            engine.held_tokens = result.held_tokens
            self._take(result, engine)

    def _take(self, result: TrialResult, engine: MeteredEngine) -> None:
        """Count a scored trial that this rollout did not play."""
        self.engines[result.plan.trial_id] = engine
        self.ended.append(result)
        self._count_scored(result)

    async def run(self, kept: Kept) -> RolloutResult:
        started = asyncio.get_running_loop().time()
        self.refill_until = started + self.plan.refill_seconds
        try:
            await self._go_on_with(kept.take())
            self._launch_missing()
            while self.running and len(self.accepted) < self.plan.accept:
                await self._settle_next()
            self.kept = await self._hold()
            await self._cancel_running(OVER_SAMPLED)
            result = self._result(asyncio.get_running_loop().time() - started)
        except BaseException:
            self.kept = ()
            await self._cancel_running(INTERRUPTED)
            raise
        kept.put(self.kept)
        return result

    async def _go_on_with(self, groups: Sequence[KeptGroup]) -> None:
        """Take up what the last rollout left; what has no place in this one is cancelled."""
        group_ids = {group.position: group_id for group_id, group in self.groups.items()}
        strangers = [kept for kept in groups if kept.position not in group_ids]
        going_on = [(group_ids[kept.position], kept) for kept in groups if kept.position in group_ids]
        for result, engine in (pair for kept in strangers for pair in kept.scored):
            self.engines[result.plan.trial_id] = engine
            self.ended.append(result)
        for trial in (trial for kept in strangers for trial in kept.running):
            self._track(trial)
        for group_id, kept in going_on:
            self.groups[group_id].rollouts = kept.rollouts
            for trial in kept.running:
                trial.plan = replace(trial.plan, group_id=group_id)
                trial.engine.reconnect(self.engine)
                self._track(trial)
            for result, engine in kept.scored:
                self._take(relabelled(result, replace(result.plan, group_id=group_id), engine), engine)
        await self._end([trial for kept in strangers for trial in kept.running], OVER_SAMPLED)
        await asyncio.gather(*(trial.go_on() for _, kept in going_on for trial in kept.running))

    def _launch_missing(self) -> None:
        """Start every sample that is neither finished nor under way."""
        if len(self.accepted) >= self.plan.accept:
            return
        have = {(group_id, result.plan.sample) for group_id, group in self.groups.items() for result in group.scored}
        have |= {(trial.plan.group_id, trial.plan.sample) for trial in self.running.values()}
        group_ids = list(self.groups)
        for index in self.plan.start_order or range(len(group_ids)):
            for sample in range(self.plan.samples_per_prompt):
                if (group_ids[index], sample) not in have:
                    self._launch(group_ids[index], sample, attempt=0)

    def _launch(self, group_id: int, sample: int, attempt: int) -> None:
        engine = MeteredEngine(self.engine, Hold() if self.plan.keep else None)
        trial = self.make_trial(self.world, self._trial_plan(group_id, sample, attempt), engine)
        task = asyncio.create_task(self._after_backoff(trial), name=trial.plan.trial_id)
        self._track(RunningTrial(task, trial, trial.plan, engine))

    def _track(self, trial: RunningTrial) -> None:
        self.running[trial.task] = trial
        self.engines[trial.plan.trial_id] = trial.engine

    def _trial_plan(self, group_id: int, sample: int, attempt: int) -> TrialPlan:
        within = f"r{self.plan.rollout_id}-g{group_id}-s{sample}-a{attempt}"
        return TrialPlan(
            task=self.groups[group_id].task,
            trial_id=f"{self.world.run_tag}-{within}",
            group_id=group_id,
            sample=sample,
            attempt=attempt,
            seed=seed_of(self.world.seed, within),
        )

    async def _after_backoff(self, trial: PlayableTrial) -> TrialResult:
        if trial.plan.attempt:
            first, longest = self.plan.first_backoff_seconds, self.plan.max_backoff_seconds
            try:
                await asyncio.sleep(backoff_seconds(trial.plan.attempt, first=first, longest=longest))
            except asyncio.CancelledError:
                return trial.cancelled_result()
        return await trial.run()

    async def _settle_next(self) -> None:
        done, _ = await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done, key=lambda task: self.running[task].plan.group_id):
            trial = self.running.pop(task)
            plan, result = trial.plan, trial.result()
            self._record(result)
            if result.outcome.scored:
                self._count_scored(result)
            elif result.outcome.cause in PERMANENT_CAUSES or self._past_refills():
                self.groups[plan.group_id].given_up = True
            else:
                self._launch(plan.group_id, plan.sample, plan.attempt + 1)

    def _count_scored(self, result: TrialResult) -> None:
        group = self.groups[result.plan.group_id]
        group.scored.append(result)
        if len(group.scored) == self.plan.samples_per_prompt and len(self.accepted) < self.plan.accept:
            group.given_up = self.drops.takes(result.plan.group_id, self._by_sample(result.plan.group_id))
            self.accepted += [] if group.given_up else [result.plan.group_id]

    async def _hold(self) -> tuple[KeptGroup, ...]:
        """Put on hold what the next rollout goes on with."""
        if self.plan.keep is None or len(self.accepted) < self.plan.accept:
            return ()
        unfinished = self._unfinished()
        self.stale = [g for g in unfinished if 0 < self.groups[g].rollouts >= self.plan.keep.most_rollouts]
        # All of them, also those that are cancelled then: who has sampled how much is known of trials that stand still.
        waiting = [trial.stop() for trial in self.running.values() if trial.plan.group_id in unfinished]
        await asyncio.gather(*waiting)
        candidates = [self._as_kept(group_id) for group_id in unfinished]
        return chosen([group for group in candidates if group.running or group.scored], self.plan.keep)

    def _as_kept(self, group_id: int) -> KeptGroup:
        group = self.groups[group_id]
        mine = [trial for trial in self.running.values() if trial.plan.group_id == group_id and trial.is_under_way]
        scored = [(result, self.engines[result.plan.trial_id]) for result in group.scored]
        return KeptGroup(group.position, group.rollouts + 1, tuple(scored), tuple(mine))

    def _unfinished(self) -> list[int]:
        return [g for g, group in self.groups.items() if g not in self.accepted and not group.given_up]

    def _held(self) -> list[RunningTrial]:
        return [trial for group in self.kept for trial in group.running]

    def _past_refills(self) -> bool:
        return asyncio.get_running_loop().time() >= self.refill_until

    def _record(self, result: TrialResult) -> None:
        self.ended.append(result)
        append_trial(log_path(self.world.trials_dir, self.plan.rollout_id), result)
        self.on_trial(result)

    async def _cancel_running(self, cause: str) -> None:
        """Cancel what still runs and is not kept, wait until all of it has cleaned up, and put it on record."""
        held = set(self._held())
        await self._end([trial for trial in self.running.values() if trial not in held], cause)

    async def _end(self, running: Sequence[RunningTrial], cause: str) -> None:
        try:
            await ended(running, cause)
        finally:
            for trial in running:
                self.running.pop(trial.task, None)
                if (result := trial.cancelled()) is not None:
                    self._record(result)

    def _result(self, seconds: float) -> RolloutResult:
        self.accepted += self.drops.undo(self.plan.accept - len(self.accepted))
        short = len(self.accepted) < self.plan.accept
        if short:
            self._accept_incomplete_groups()
        accepted = tuple(trial for group_id in sorted(self.accepted) for trial in self._by_sample(group_id))
        left = {result.plan.trial_id for group in self.kept for result, _ in group.scored}
        trials = tuple(result for result in self.ended if result.plan.trial_id not in left)
        dropped: dict[int, Account] = dict.fromkeys(self.drops.group_ids, "filter")
        dropped |= dict.fromkeys(self.stale, "staleness")
        ledger = ledger_of(trials, accepted, sampled_tokens=self._sampled_tokens(), dropped=dropped)
        ledger.book("staleness", self.plan.stale_tokens)
        rows = tuple(row for trial in accepted for row in trial.rows)
        population = RolloutPopulation(
            accepted=accepted,
            ended=trials,
            rows=rows,
            ledger=ledger,
            seconds=seconds,
            held_tokens=tuple(trial.sampled_tokens for trial in self._held()),
        )
        indexes = {group.position: index for index, group in enumerate(self.groups.values())}
        return RolloutResult(
            rollout_id=self.plan.rollout_id,
            rows=rows,
            accepted=accepted,
            trials=trials,
            metrics=rollout_metrics(population) | self.drops.metrics(),
            ledger=ledger,
            seconds=seconds,
            short=short,
            unfinished=tuple(indexes[self.groups[group_id].position] for group_id in self._unfinished()),
            kept=tuple(indexes[group.position] for group in self.kept),
        )

    def _sampled_tokens(self) -> int:
        """What the engine's side says of the trials that ended here; those that go on are counted where they end."""
        left = {id(engine) for group in self.kept for _, engine in group.scored}
        left |= {id(trial.engine) for trial in self._held()}
        sampled = sum(engine.sampled_tokens for engine in self.engines.values() if id(engine) not in left)
        return sampled + self.plan.stale_tokens

    def _accept_incomplete_groups(self) -> None:
        """After the deadline valid siblings are all that a group has; without permission to be short, abort."""
        if self.plan.allow_short:
            self.accepted += [g for g, group in self.groups.items() if g not in self.accepted and group.scored]
        if not self.plan.allow_short or not self.accepted:
            causes = Counter(f"{t.outcome.boundary}/{t.outcome.cause}" for t in self.ended if not t.outcome.scored)
            listed = ", ".join(f"{cause} × {count}" for cause, count in causes.most_common(5))
            raise RolloutAborted(
                f"rollout {self.plan.rollout_id + 1}: {len(self.accepted)} of {self.plan.accept} groups scored "
                f"after {self.plan.refill_seconds:g} s; lost: {listed or 'none'}",
                where=str(log_path(self.world.trials_dir, self.plan.rollout_id)),
                hint="read the trial log for the first detail of the most frequent cause",
            )

    def _by_sample(self, group_id: int) -> Sequence[TrialResult]:
        return sorted(self.groups[group_id].scored, key=lambda trial: trial.plan.sample)
