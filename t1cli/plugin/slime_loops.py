"""Rollouts that a loop of slime's own plays, one call of our generate function per trial, and what t1 adds to each.

slime's loops return Samples. Rows, token ledger, metrics, the lag of the weights, checkpoints and a pause are the
same here as under t1's own loop (`rollout.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t1cli.plugin.campaign import Campaign, campaign_of
from t1cli.plugin.checkpoints.keeper import keep
from t1cli.plugin.group_stream import GroupStream, is_lost, position_of, trial_ids
from t1cli.plugin.patches.control_plane import patch_now
from t1cli.plugin.rollout import INDEX_STRIDE, VERSION_LAG, clock_of
from t1cli.plugin.settings import settings_text
from t1cli.plugin.trial_book import TrialBook, trial_book
from t1cli.plugin.workers import trial_maker
from t1cli.run.pause import hold_while_paused
from t1cli.terminal.rollout.from_spec import refill_seconds
from t1cli.terminal.rollout.metrics import RolloutPopulation, rollout_metrics
from t1cli.terminal.trajectory.store import save_rows

LOST: Final = "lost"
"""slime's reason of a group that was dropped because the infrastructure lost a trial of it."""
_LOG = logging.getLogger(__name__)
_streams: dict[str, GroupStream] = {}
"""By session: its worker runs on from rollout to rollout."""


def generate_by_slime(args: Any, rollout_id: int, data_source: Any) -> Any:
    """RolloutFnTrainOutput of slime's stock loop: over-sampling, filter, abort and partial rollouts are slime's.

    Raises RolloutAborted when the batch never fills.
    """
    from slime.rollout.sglang_rollout import generate_rollout  # type: ignore[import-not-found]

    batch = _begin(args, rollout_id)
    output = generate_rollout(args, rollout_id, data_source, evaluation=False)
    data_source.settle(rollout_id)
    return batch.finish(output.samples, more=output.metrics or {})


def generate_fully_async(args: Any, rollout_id: int, data_source: Any) -> Any:
    """RolloutFnTrainOutput of the next groups that slime's asynchronous worker has finished; its trials run on.

    Groups that older weights sampled than `max_staleness` allows are given back. Raises RolloutAborted when the batch
    never fills.
    """
    batch = _begin(args, rollout_id)
    stream, clock = _stream(args, data_source, batch.campaign), clock_of(batch.campaign)
    last = rollout_id + 1 >= args.num_rollout
    try:
        groups = stream.take(args.rollout_batch_size, is_late=lambda rows: clock.is_late(rollout_id, rows))
    except BaseException:
        stream.close()
        raise
    data_source.settle(rollout_id, [position_of(group) for group in groups])
    if last:
        # No rollout follows to take what still runs.
        stream.close()
    return batch.finish(groups, waits=not last)


def filter_group(args: Any, group: list[Any]) -> Any:
    """slime's DynamicFilterOutput: no group with a lost trial is trained on; the spec's own filter sees the others."""
    from slime.rollout.filter_hub.base_types import DynamicFilterOutput  # type: ignore[import-not-found]

    campaign, book = campaign_of(args), trial_book(settings_text(args))
    if is_lost(group):
        # Where every prompt is lost at once, slime would draw new ones for ever.
        book.refuse_late()
        book.drop(position_of(group), "over_sampling")
        return DynamicFilterOutput(keep=False, reason=LOST)
    drops = campaign.world.drops
    reason = drops(book.trials(trial_ids([group]))) if drops else None
    if reason is not None:
        book.drop(position_of(group), "filter")
    return DynamicFilterOutput(keep=reason is None, reason=reason)


@dataclass(frozen=True)
class _Batch:
    """One rollout from its beginning to what slime gets of it."""

    args: Any
    campaign: Campaign
    book: TrialBook
    rollout_id: int
    began: float

    def finish(self, groups: list[Any], *, more: Mapping[str, Any] | None = None, waits: bool = False) -> Any:
        """Save the rows, close the ledger, number the samples as slime wants them. `more`: slime's own metrics."""
        from slime.rollout.base_types import RolloutFnTrainOutput  # type: ignore[import-not-found]

        self.book.refuse_failed()
        booked = self.book.book(trial_ids(groups), waits=waits)
        rows = tuple(row for trial in booked.accepted for row in trial.rows)
        save_rows(self.campaign.settings.run.rollouts / f"rollout_{self.rollout_id:06d}.npz", rows)
        seconds = time.monotonic() - self.began
        population = RolloutPopulation(booked.accepted, booked.ended, rows, booked.ledger, seconds)
        lag = clock_of(self.campaign).lag(self.rollout_id, rows)
        known = {} if lag is None else {VERSION_LAG: float(lag)}
        for number, sample in enumerate(sample for group in groups for siblings in group for sample in siblings):
            sample.index = self.rollout_id * INDEX_STRIDE + number
        return RolloutFnTrainOutput(samples=groups, metrics={**(more or {}), **rollout_metrics(population), **known})


def _begin(args: Any, rollout_id: int) -> _Batch:
    patch_now()
    campaign, book = campaign_of(args), trial_book(settings_text(args))
    keep(campaign.settings)
    asyncio.run(hold_while_paused(campaign.settings.run, _LOG.warning))
    book.begin(rollout_id, seconds=refill_seconds(campaign.spec), make_trial=trial_maker(args, campaign))
    return _Batch(args, campaign, book, rollout_id, time.monotonic())


def _stream(args: Any, data_source: Any, campaign: Campaign) -> GroupStream:
    key = settings_text(args)
    if key not in _streams or _streams[key].closed:
        _streams[key] = GroupStream(args, data_source, campaign)
    return _streams[key]
