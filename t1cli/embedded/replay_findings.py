"""What one set of rows shows about replay: flips, and gap and mismatch KL with and without it, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from t1cli.embedded.batches import micro_batches
from t1cli.embedded.losses import token_log_probs
from t1cli.embedded.model import TinyMoE
from t1cli.embedded.ppo import behaviour_log_probs
from t1cli.embedded.routing_study import free_forward, real_positions
from t1cli.terminal.trajectory.mismatch import RoutingSums, log_prob_sums, missing_experts, routing_sums
from t1cli.terminal.trajectory.row import TrainingRow

RESAMPLES = 2000
_MAX_TOKENS = 4096
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReplayFindings:
    """Gaps are mean |trainer - sampler| log-prob over trained tokens, KLs mean k3 of the same differences (nats)."""

    rows: int
    trained_tokens: int
    drifted_in_loss: int
    flipped_rows: float
    """Share of positions where the trainer would choose another expert set than the sampler in at least one layer."""
    flipped_sets: float
    """Share of (position, layer) cells."""
    gap_without_replay: float
    gap_with_replay: float
    reduction: float
    """Share of the gap that replay removes."""
    reduction_low: float
    reduction_high: float
    """95 % interval, bootstrap over rows."""
    kl_without_replay: float
    kl_with_replay: float
    largest_without_replay: float
    largest_with_replay: float
    """Largest |difference| of one token."""
    routing_gap: float
    """Mean |free - replayed| of the trainer itself: what the flips alone are worth."""
    tokens_after_a_flip: float
    """Share of trained tokens with a flip at their own position or before it."""
    gap_after_a_flip_without_replay: float
    gap_after_a_flip_with_replay: float

    def to_json(self) -> dict[str, object]:
        """For a script."""
        return asdict(self)


@dataclass(frozen=True)
class _RowScores:
    """One row's trained tokens, and its routing."""

    free: Floats
    """Trainer minus sampler, routing freely."""
    replayed: Floats
    after_flip: npt.NDArray[np.bool_]
    flips: RoutingSums


def findings(model: TinyMoE, rows: Sequence[TrainingRow], *, temperature: float) -> ReplayFindings:
    """Score the rows' sampled tokens with and without their recorded routing."""
    scores = _scores(model, rows, temperature)
    free, replayed = (np.concatenate([getattr(s, name) for s in scores]) for name in ("free", "replayed"))
    after = np.concatenate([score.after_flip for score in scores])
    flips = sum((score.flips for score in scores), RoutingSums())
    everything = np.ones(free.size)
    low, high = _interval(scores)
    return ReplayFindings(
        rows=len(rows),
        trained_tokens=free.size,
        drifted_in_loss=sum(row.audit.drifted_in_loss for row in rows),
        flipped_rows=flips.flipped_rows / flips.positions,
        flipped_sets=flips.flipped_sets / flips.cells,
        gap_without_replay=_mean_size(free),
        gap_with_replay=_mean_size(replayed),
        reduction=1.0 - _mean_size(replayed) / _mean_size(free),
        reduction_low=low,
        reduction_high=high,
        kl_without_replay=log_prob_sums(free, 0 * free, everything).kl,
        kl_with_replay=log_prob_sums(replayed, 0 * replayed, everything).kl,
        largest_without_replay=float(np.abs(free).max()),
        largest_with_replay=float(np.abs(replayed).max()),
        routing_gap=_mean_size(free - replayed),
        tokens_after_a_flip=float(after.mean()),
        gap_after_a_flip_without_replay=_mean_size(free[after]),
        gap_after_a_flip_with_replay=_mean_size(replayed[after]),
    )


def _scores(model: TinyMoE, rows: Sequence[TrainingRow], temperature: float) -> list[_RowScores]:
    """One per row, in the order of micro-batches."""
    batches = micro_batches(rows, max_tokens=_MAX_TOKENS, replay=True)
    found = []
    for batch, replayed in zip(batches, behaviour_log_probs(model, batches, temperature), strict=True):
        logits, experts = free_forward(model, batch)
        free = token_log_probs(logits, batch.targets, temperature)
        assert batch.routing is not None
        real, trained = real_positions(batch), batch.loss_mask.bool()
        for row in range(len(batch.row_indices)):
            mine, theirs = experts[row][real[row]].numpy(), batch.routing[row][real[row]].numpy()
            flipped = (missing_experts(mine, theirs) > 0).any(-1)
            inside, sampler = trained[row], batch.rollout_log_probs[row]
            found.append(
                _RowScores(
                    free=(free[row] - sampler)[inside].double().numpy(),
                    replayed=(replayed[row] - sampler)[inside].double().numpy(),
                    after_flip=np.logical_or.accumulate(flipped)[inside[real[row]].numpy()],
                    flips=routing_sums(mine, theirs),
                )
            )
    return found


def _interval(scores: Sequence[_RowScores]) -> tuple[float, float]:
    """95 % interval of the reduction; rows are resampled, since tokens of one row share their flips."""
    sums = np.array([[np.abs(score.free).sum(), np.abs(score.replayed).sum()] for score in scores])
    chosen = np.random.default_rng(0).integers(0, len(sums), size=(RESAMPLES, len(sums)))
    free, replayed = sums[chosen].sum(axis=1).T
    low, high = np.percentile(1.0 - replayed / np.maximum(free, np.finfo(float).tiny), [2.5, 97.5])
    return float(low), float(high)


def _mean_size(values: Floats) -> float:
    return float(np.abs(values).mean()) if values.size else 0.0
