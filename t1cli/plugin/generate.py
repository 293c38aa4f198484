"""slime's custom generate function: one trial, for loops that are slime's own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from t1cli.plugin.campaign import Campaign, campaign_of
from t1cli.plugin.one_trial import OneTrial
from t1cli.plugin.settings import settings_text
from t1cli.plugin.task_source import TASK_KEY
from t1cli.plugin.to_sample import LOST_FOR_GOOD, Siblings, lost_sample, to_sample, unit_field, unit_of
from t1cli.plugin.trial_book import TrialBook, trial_book
from t1cli.run.pause import hold_while_paused
from t1cli.terminal.rollout.batch import PERMANENT_CAUSES
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.seeds import seed_of
from t1cli.terminal.tasks.task import Task

logger = logging.getLogger(__name__)


async def play(args: Any, sample: Any, sampling_params: dict[str, Any], *, evaluation: bool) -> Any:
    """The rows of one trial as Samples with a common group_id; `sample` itself, ABORTED, when there are none.

    ABORTED is slime's word for a trial that nobody trains on: its loops discard the group, or play it again.
    `sampling_params` is slime's; the trial samples as the spec says, from which slime's arguments were compiled.
    """
    campaign, book = campaign_of(args), trial_book(settings_text(args))
    enough = (lambda: False) if evaluation else _enough(args, book)
    if not evaluation and campaign.spec.rollout.pipeline == "fully_async":
        # Elsewhere a rollout waits before it begins; slime's asynchronous worker runs on between them.
        await hold_while_paused(campaign.settings.run, logger.warning, is_over=enough)
    world = campaign.evaluation_world if evaluation else campaign.world
    try:
        task, index = _task_of(campaign, sample), int(sample.index or 0)
        trial = OneTrial(
            world=world,
            book=book,
            plan=lambda: _plan(campaign, task, sample, book.next_attempt(index)),
            enough=enough,
            evaluates=evaluation,
        )
        result = await trial.settled()
    except Exception as error:
        # Some of slime's loops only log it, and would train on without this group.
        book.fail(error)
        raise
    return _samples(campaign, sample, result)


def _enough(args: Any, book: TrialBook) -> Callable[[], bool]:
    """Whether the loop wants no more trials: slime's own word for it, or the end of the session."""
    from slime.rollout.sglang_rollout import GenerateState  # type: ignore[import-not-found]

    state = GenerateState(args)
    return lambda: book.over or bool(state.aborted)


def _samples(campaign: Campaign, sample: Any, result: TrialResult) -> Any:
    if not result.rows:
        lost_sample(sample).metadata["lost"] = f"{result.outcome.boundary}/{result.outcome.cause}"
        sample.metadata[LOST_FOR_GOOD] = result.outcome.cause in PERMANENT_CAUSES
        setattr(sample, unit_field(sample), unit_of(sample))
        return sample
    routing = campaign.spec.rollout.routing_replay and bool(campaign.spec.model.architecture.num_experts)
    made = []
    for row in result.rows:
        one = to_sample(row, index=sample.index, trial=sample.index, with_routing=routing)
        one.group_index = sample.group_index
        made.append(one)
    return Siblings(made)


def _plan(campaign: Campaign, task: Task, sample: Any, attempt: int) -> TrialPlan:
    within = f"g{sample.group_index}-i{sample.index}-a{attempt}"
    return TrialPlan(
        task=task,
        trial_id=f"{campaign.world.run_tag}-{within}",
        group_id=int(sample.group_index or 0),
        sample=int(sample.index or 0),
        attempt=attempt,
        seed=seed_of(campaign.world.seed, within),
    )


def _task_of(campaign: Campaign, sample: Any) -> Task:
    name = (sample.metadata or {}).get(TASK_KEY)
    for task in (*campaign.tasks, *campaign.evaluation_tasks):
        if task.name == name:
            return task
    raise KeyError(f"sample {sample.index} names no task of the pool: metadata[{TASK_KEY!r}] is {name!r}")
