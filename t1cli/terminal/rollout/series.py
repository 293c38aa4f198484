"""A campaign's rollouts one after the other: what each launches, and what it leaves to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.rollout.batch import INTERRUPTED, TrialMaker, run_rollout
from t1cli.terminal.rollout.from_spec import groups_launched, rollout_plan
from t1cli.terminal.rollout.kept import Kept
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.rollout.task_times import TaskTimes
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.rollout.trial_log import append_trial, log_path
from t1cli.terminal.rollout.unfinished import DrawRecord
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.tasks.task import Task


class RolloutSeries:
    """One session's rollouts, in order and never two at once. Trials that go on belong to one event loop."""

    def __init__(self, spec: ExperimentSpec, tasks: Sequence[Task], directory: Path) -> None:
        """`directory` is the run's own and outlives its sessions."""
        self._spec, self._tasks = spec, tasks
        self._draws = DrawRecord(directory / "draws")
        self._times = TaskTimes(directory / "task_seconds.jsonl")
        self._kept = Kept()
        self._log: Path | None = None

    @property
    def _repeats(self) -> bool:
        return self._spec.rollout.unfinished != "drop"

    def plan(self, rollout_id: int) -> RolloutPlan:
        """What this rollout launches: after a resume the same tasks as before the interruption."""
        positions = None
        if self._repeats:
            count = groups_launched(self._spec)
            positions = self._draws.before(rollout_id, count).positions(count)
        plan = rollout_plan(self._spec, rollout_id, self._tasks, positions)
        if self._spec.rollout.start_order == "drawn":
            return plan
        return replace(plan, start_order=self._times.longest_first(plan.tasks, self._tasks))

    async def run(
        self,
        world: TrialWorld,
        plan: RolloutPlan,
        *,
        on_trial: Callable[[TrialResult], None] | None = None,
        finished: Sequence[TrialResult] = (),
        make_trial: TrialMaker = Trial,
    ) -> RolloutResult:
        """Run the rollout of `plan` and record what it leaves. Raises as `run_rollout` does."""
        self._log = log_path(world.trials_dir, plan.rollout_id)
        result = await run_rollout(
            world, plan, on_trial=on_trial, finished=finished, make_trial=make_trial, kept=self._kept
        )
        self._times.note(plan.rollout_id, result.trials)
        if not self._repeats:
            return result
        return replace(result, metrics={**result.metrics, **self._leave(plan, result)})

    async def close(self) -> None:
        """End the trials that wait for a rollout that will not come, and put them on record."""
        for result in await self._kept.close(INTERRUPTED):
            if self._log is not None:
                append_trial(self._log, result)

    def _leave(self, plan: RolloutPlan, result: RolloutResult) -> dict[str, float]:
        """Record the next rollout's draw; how many of this one's groups are in it, and came from the last one's."""
        count = len(plan.tasks)
        before = self._draws.before(plan.rollout_id, count)
        unfinished = {plan.positions[index] for index in result.unfinished}
        after = before.after(count, unfinished, going_on={plan.positions[index] for index in result.kept})
        self._draws.write(plan.rollout_id + 1, after)
        return {
            "terminal/repeated_groups": float(min(count, len(before.again))),
            "terminal/unfinished_groups": float(len(unfinished)),
        }
