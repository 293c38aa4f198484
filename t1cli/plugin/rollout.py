"""slime's rollout function: a batch of terminal trials, or an evaluation, in an event loop of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from t1cli.plugin.campaign import Campaign, campaign_of, load_tasks
from t1cli.plugin.checkpoints.keeper import keep
from t1cli.plugin.checkpoints.scores import record_scores
from t1cli.plugin.evaluation_job import assert_loaded, hand_over, tell
from t1cli.plugin.patches.control_plane import patch_now
from t1cli.plugin.settings import parse_settings, settings_text
from t1cli.plugin.to_sample import evaluation_data, to_samples
from t1cli.plugin.workers import trial_maker
from t1cli.run.pause import hold_while_paused
from t1cli.terminal.rollout.evaluate import EvaluationPlan, EvaluationResult
from t1cli.terminal.rollout.evaluate import evaluate as evaluate_tasks
from t1cli.terminal.rollout.plan import RolloutResult
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.rollout.series import RolloutSeries
from t1cli.terminal.sandbox.pool.background_loop import BackgroundLoop
from t1cli.terminal.trajectory.store import save_rows
from t1cli.terminal.trajectory.versions import LagRule, VersionClock, lag_rule

_LOG = logging.getLogger(__name__)

VERSION_LAG: Final = "terminal/version_lag"
"""Weight versions that a batch lies behind the trainer when it is trained."""
INDEX_STRIDE: Final = 1_000_000
"""Sample numbers of one rollout; no rollout has more rows."""


def generate_batch(args: Any, rollout_id: int) -> Any:
    """RolloutFnTrainOutput of exactly `batch_size` groups; waits while the run is paused.

    Raises RolloutAborted when the batch never fills.
    """
    from slime.rollout.base_types import RolloutFnTrainOutput  # type: ignore[import-not-found]

    patch_now()
    campaign = campaign_of(args)
    keep(campaign.settings)
    asyncio.run(hold_while_paused(campaign.settings.run, _LOG.warning))
    result = _run(args, campaign, rollout_id)
    save_rows(campaign.settings.run.rollouts / f"rollout_{rollout_id:06d}.npz", result.rows)
    lag = clock_of(campaign).lag(rollout_id, result.rows)
    samples = to_samples(
        result.rows,
        first_index=rollout_id * INDEX_STRIDE,
        with_routing=campaign.spec.rollout.routing_replay and bool(campaign.spec.model.architecture.num_experts),
    )
    known = {} if lag is None else {VERSION_LAG: float(lag)}
    return RolloutFnTrainOutput(samples=samples, metrics={**result.metrics, **known})


def _run(args: Any, campaign: Campaign, rollout_id: int) -> RolloutResult:
    series, loop = _series(settings_text(args))
    work = series.run(campaign.world, series.plan(rollout_id), make_trial=trial_maker(args, campaign))
    # A trial that goes on in the next rollout needs a loop that outlives this one.
    return asyncio.run(loop.run(work) if campaign.spec.rollout.unfinished == "continue" else work)


@lru_cache(maxsize=1)
def _series(settings_json: str) -> tuple[RolloutSeries, BackgroundLoop]:
    """This session's rollouts, which slime's rollout process plays one after the other, whatever engines it has."""
    settings = parse_settings(settings_json)
    tasks = load_tasks(settings.spec)
    return RolloutSeries(settings.spec, tasks, settings.run.carried), BackgroundLoop("t1-rollouts")


@lru_cache(maxsize=4)
def _clock_of(run: str, session: int, rule: LagRule) -> VersionClock:
    return VersionClock(rule)


def clock_of(campaign: Campaign) -> VersionClock:
    """The clock of this session, which slime's rollout process keeps from rollout to rollout."""
    rollout, settings = campaign.spec.rollout, campaign.settings
    return _clock_of(str(settings.run.path), settings.session, lag_rule(rollout))


def evaluate(args: Any, rollout_id: int) -> Any:
    """RolloutFnEvalOutput of the evaluation block; lost trials are counted, never scored as 0."""
    from slime.rollout.base_types import RolloutFnEvalOutput

    patch_now()
    campaign = campaign_of(args)
    evaluation = campaign.spec.evaluation
    if evaluation is None:
        return RolloutFnEvalOutput(data={}, metrics={})
    result = _measure(args, campaign, rollout_id)
    scored = result.scored
    data = evaluation_data(
        [trial.reward.value for trial in scored if trial.reward], [trial.outcome.stop.truncated for trial in scored]
    )
    # slime derives eval/NAME and its truncation itself; these two it would overwrite with its own.
    own = (f"eval/{evaluation.name}", f"eval/{evaluation.name}-truncated_ratio")
    metrics = {name: value for name, value in result.metrics(evaluation.name).items() if name not in own}
    return RolloutFnEvalOutput(data={evaluation.name: data} if scored else {}, metrics=metrics)


def _measure(args: Any, campaign: Campaign, rollout_id: int) -> EvaluationResult:
    """Run it, and leave what it found: beside the checkpoints of a campaign, or for whoever asked for one."""
    settings, evaluation = campaign.settings, campaign.spec.evaluation
    assert evaluation is not None
    if settings.checkpoint is not None:
        assert_loaded(args, settings.checkpoint)
        result = _run_evaluation(args, campaign, rollout_id, tell)
        hand_over(settings.run.path, result)
        return result
    result = _run_evaluation(args, campaign, rollout_id, lambda _: None)
    if result.complete:
        # A mean over part of the set is no figure to choose a checkpoint by.
        record_scores(settings.actor_dir, rollout_id, result.metrics(evaluation.name))
    return result


def _run_evaluation(
    args: Any, campaign: Campaign, rollout_id: int, on_trial: Callable[[TrialResult], None]
) -> EvaluationResult:
    evaluation = campaign.spec.evaluation
    assert evaluation is not None
    plan = EvaluationPlan(
        tag=f"r{rollout_id}",
        tasks=campaign.evaluation_tasks,
        repeats=evaluation.repeats,
        infrastructure_retries=evaluation.infrastructure_retries,
    )
    maker = trial_maker(args, campaign, evaluates=True)
    return evaluate_tasks(campaign.evaluation_world, plan, on_trial=on_trial, make_trial=maker)
