"""slime's custom generate function: one trial, for loops that are slime's own (fully asynchronous rollouts)."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Final

from t1cli.launch.pause import hold_while_paused
from t1cli.plugin.campaign import Campaign, campaign_of
from t1cli.plugin.task_source import TASK_KEY
from t1cli.plugin.to_sample import Siblings, lost_sample, to_sample, unit_field, unit_of
from t1cli.terminal.rollout.batch import PERMANENT_CAUSES
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.rollout.trial_log import append_trial
from t1cli.terminal.tasks.task import Task

logger = logging.getLogger(__name__)
_ATTEMPTS: Final = 5
"""Tries of one trial that the infrastructure lost; slime's loop itself would run it once."""


async def play(args: Any, sample: Any, sampling_params: dict[str, Any], *, evaluation: bool) -> Siblings:
    """The rows of one trial as Samples with a common group_id. A lost trial is repeated, then handed over untrained.

    `sampling_params` is slime's; the trial samples as the spec says, from which slime's arguments were compiled.
    """
    campaign = campaign_of(args)
    if not evaluation:
        await hold_while_paused(campaign.settings.run, logger.warning)
    task = _task_of(campaign, sample)
    world = campaign.evaluation_world if evaluation else campaign.world
    async with world.connect() as engine:
        for attempt in range(_ATTEMPTS):
            plan = _plan(campaign, task, sample, attempt)
            result = await Trial(world, plan, engine).run()
            append_trial(world.trials_dir / "generated.jsonl", result)
            if result.outcome.scored or result.outcome.cause in PERMANENT_CAUSES:
                break
    return _samples(campaign, sample, result)


def _samples(campaign: Campaign, sample: Any, result: TrialResult) -> Siblings:
    if not result.rows:
        lost_sample(sample).metadata["lost"] = f"{result.outcome.boundary}/{result.outcome.cause}"
        setattr(sample, unit_field(sample), unit_of(sample))
        return Siblings([sample])
    routing = campaign.spec.rollout.routing_replay and bool(campaign.spec.model.architecture.num_experts)
    made = []
    for row in result.rows:
        one = to_sample(row, index=sample.index, trial=sample.index, with_routing=routing)
        one.group_index = sample.group_index
        made.append(one)
    return Siblings(made)


def _plan(campaign: Campaign, task: Task, sample: Any, attempt: int) -> TrialPlan:
    within = f"g{sample.group_index}-i{sample.index}-a{attempt}"
    seed = int.from_bytes(hashlib.sha256(f"{campaign.world.seed}:{within}".encode()).digest()[:4], "big")
    return TrialPlan(
        task=task,
        trial_id=f"{campaign.world.run_tag}-{within}",
        group_id=int(sample.group_index or 0),
        sample=int(sample.index or 0),
        attempt=attempt,
        seed=seed,
    )


def _task_of(campaign: Campaign, sample: Any) -> Task:
    name = (sample.metadata or {}).get(TASK_KEY)
    for task in (*campaign.tasks, *campaign.evaluation_tasks):
        if task.name == name:
            return task
    raise KeyError(f"sample {sample.index} names no task of the pool: metadata[{TASK_KEY!r}] is {name!r}")
