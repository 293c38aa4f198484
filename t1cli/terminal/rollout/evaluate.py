"""Every task × repeats in an event loop of its own; what was scheduled is always shown beside what was scored."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from t1cli.terminal.rollout.batch import TrialMaker
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.rollout.trial_log import append_trial
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.seeds import seed_of
from t1cli.terminal.tasks.task import Task


@dataclass(frozen=True)
class EvaluationPlan:
    """What one evaluation runs."""

    tag: str
    """Distinguishes this evaluation's trial ids and sampling seeds from others of the same run."""
    tasks: tuple[Task, ...]
    repeats: int = 1
    infrastructure_retries: int = 2


@dataclass(frozen=True)
class EvaluationResult:
    """What one evaluation found. A mean is over scored trials; read it only beside scored and scheduled."""

    scheduled: int
    trials: tuple[TrialResult, ...]
    """One per task and repeat, by task and repeat; lost ones included."""

    @property
    def scored(self) -> tuple[TrialResult, ...]:
        return tuple(trial for trial in self.trials if trial.outcome.scored)

    @property
    def complete(self) -> bool:
        """Whether every scheduled trial was scored."""
        return len(self.scored) == self.scheduled

    def check_rates(self) -> dict[str, list[float]]:
        """Share of expected tests passed, per trial, by task name."""
        return self._by_task(lambda trial: trial.reward.accuracy if trial.reward else None)

    def solved(self) -> dict[str, list[float]]:
        """1 for a solved trial and 0 otherwise, by task name."""
        return self._by_task(lambda trial: trial.reward.binary if trial.reward else None)

    def metrics(self, name: str) -> dict[str, float]:
        """slime's `eval/<name>` (mean reward) and what must be read beside it."""
        rewards = [trial.reward for trial in self.scored if trial.reward]
        counted = {f"eval/{name}/scheduled": float(self.scheduled), f"eval/{name}/scored": float(len(self.scored))}
        if not rewards:
            return counted
        return counted | {
            f"eval/{name}": statistics.fmean(reward.value for reward in rewards),
            f"eval/{name}/check_rate": statistics.fmean(reward.accuracy for reward in rewards),
            f"eval/{name}/solved_rate": statistics.fmean(reward.binary for reward in rewards),
            f"eval/{name}-truncated_ratio": statistics.fmean(t.outcome.stop.truncated for t in self.scored),
        }

    def _by_task(self, value_of: Callable[[TrialResult], float | None]) -> dict[str, list[float]]:
        values: dict[str, list[float]] = {}
        for trial in self.scored:
            value = value_of(trial)
            if value is not None:
                values.setdefault(trial.plan.task.name, []).append(value)
        return values


def evaluate(
    world: TrialWorld,
    plan: EvaluationPlan,
    *,
    on_trial: Callable[[TrialResult], None] | None = None,
    make_trial: TrialMaker = Trial,
) -> EvaluationResult:
    """Run an evaluation in a new event loop; from a coroutine, call it through `asyncio.to_thread`."""
    return asyncio.run(run_evaluation(world, plan, on_trial=on_trial, make_trial=make_trial))


async def run_evaluation(
    world: TrialWorld,
    plan: EvaluationPlan,
    *,
    on_trial: Callable[[TrialResult], None] | None = None,
    make_trial: TrialMaker = Trial,
) -> EvaluationResult:
    """The same inside a running loop. Leaves nothing running, also when it is cancelled (catalogue S7)."""
    seen = on_trial or (lambda _: None)
    log = world.trials_dir / f"evaluation_{plan.tag}.jsonl"

    async def one(engine: MeteredEngine, index: int, repeat: int) -> TrialResult:
        for attempt in range(plan.infrastructure_retries + 1):
            result = await make_trial(world, _trial_plan(world, plan, (index, repeat, attempt)), engine).run()
            append_trial(log, result)
            if result.outcome.scored:
                break
        seen(result)
        return result

    try:
        async with world.connect() as engine, asyncio.TaskGroup() as group:
            metered = MeteredEngine(engine)
            running = [
                group.create_task(one(metered, index, repeat))
                for index in range(len(plan.tasks))
                for repeat in range(plan.repeats)
            ]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several
    return EvaluationResult(scheduled=len(running), trials=tuple(task.result() for task in running))


def _trial_plan(world: TrialWorld, plan: EvaluationPlan, place: Sequence[int]) -> TrialPlan:
    index, repeat, attempt = place
    within = f"eval-{plan.tag}-g{index}-s{repeat}-a{attempt}"
    return TrialPlan(
        task=plan.tasks[index],
        trial_id=f"{world.run_tag}-{within}",
        group_id=index,
        sample=repeat,
        attempt=attempt,
        seed=seed_of(world.seed, within),
    )
