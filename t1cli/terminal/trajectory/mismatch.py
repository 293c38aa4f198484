"""How far the trainer is from the sampler on the tokens that are trained: log-prob gap, mismatch KL, flipped experts.

Everything here is a sum, so that micro-batches, rows and ranks add up and the division comes last and once: over all
trained tokens. A mean of means, or a denominator that belongs to another unit (a group of samples, a micro-batch), is
how one built-in metric of the T1 report (section 09) came to show 163 to 269 for a true 0.02.

Shapes: T tokens, R positions, L MoE layers, K experts per token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from t1cli.errors import T1Error

REDUCER_BUG = 1.0
"""A mean |gap| above this is a wrong reduction, not a divergence: sampled tokens would be e times as likely or less."""


@dataclass(frozen=True)
class LogProbSums:
    """Sums over trained tokens of trainer log-prob minus sampler log-prob (catalogue F6 at train)."""

    tokens: int = 0
    absolute: float = 0.0
    """Σ |d|."""
    k3: float = 0.0
    """Σ (exp(d) - 1 - d): estimates KL(sampler ‖ trainer) without bias and never below 0 (Schulman 2020, k3)."""

    def __add__(self, other: LogProbSums) -> LogProbSums:
        return LogProbSums(self.tokens + other.tokens, self.absolute + other.absolute, self.k3 + other.k3)

    @property
    def gap(self) -> float:
        """Mean |d| over trained tokens; NaN when there are none."""
        return self.absolute / self.tokens if self.tokens else math.nan

    @property
    def kl(self) -> float:
        """Mismatch KL in nats per trained token; NaN when there are none."""
        return self.k3 / self.tokens if self.tokens else math.nan


def log_prob_sums(trainer: Any, sampler: Any, trained: Any) -> LogProbSums:
    """Of arrays of one shape; `trained` is 0 or 1. What lies outside may be anything, NaN included."""
    inside = np.asarray(trained).astype(bool)
    difference = np.asarray(trainer, np.float64)[inside] - np.asarray(sampler, np.float64)[inside]
    k3 = np.expm1(difference) - difference
    return LogProbSums(int(difference.size), float(np.abs(difference).sum()), float(k3.sum()))


def refuse_first_gap(sums: LogProbSums, limit: float | None) -> None:
    """The gate before a session's first actor step, when trainer and sampler hold the same weights (catalogue F2).

    Raises T1Error when their log-probs are further apart than `limit` on average; None asks for nothing.
    """
    if limit is None or not sums.tokens or sums.gap <= limit:
        return
    raise T1Error(
        f"before the first step the trainer's log-probs are {sums.gap:.4g} from the sampler's on average, over "
        f"{sums.tokens} tokens; {limit:g} is allowed, though both hold the same weights (mismatch KL {sums.kl:.3g})",
        where="rollout.first_gap_limit",
        hint="look for another temperature, chat template, checkpoint or routing on one side; the limit is a spec key",
    )


@dataclass(frozen=True)
class RoutingSums:
    """Counts over positions of which experts the trainer would have chosen, and which the sampler did."""

    positions: int = 0
    flipped_rows: int = 0
    """Positions where at least one layer's set differs."""
    cells: int = 0
    """Positions × layers."""
    flipped_sets: int = 0
    replaced_experts: int = 0
    """Experts of the sampler that the trainer would not have chosen."""
    chosen_experts: int = 0
    """Positions × layers × experts per token."""

    def __add__(self, other: RoutingSums) -> RoutingSums:
        return RoutingSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def to_metrics(self) -> dict[str, float]:
        """Shares under `train/`; empty when nothing was compared."""
        if not self.cells:
            return {}
        return {
            "train/routing_flipped_rows": self.flipped_rows / self.positions,
            "train/routing_flipped_sets": self.flipped_sets / self.cells,
            "train/routing_flipped_experts": self.replaced_experts / self.chosen_experts,
        }


def routing_sums(trainer: Any, sampler: Any) -> RoutingSums:
    """Of two arrays (R, L, K) of expert indices, compared as sets: the order within K means nothing."""
    missing = missing_experts(np.asarray(trainer), np.asarray(sampler))
    flipped = missing > 0
    return RoutingSums(
        positions=flipped.shape[0],
        flipped_rows=int(flipped.any(-1).sum()),
        cells=flipped.size,
        flipped_sets=int(flipped.sum()),
        replaced_experts=int(missing.sum()),
        chosen_experts=int(np.asarray(sampler).size),
    )


def missing_experts(trainer: npt.NDArray[Any], sampler: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """(…, L): how many of the sampler's experts are not among the trainer's, of two arrays (…, L, K)."""
    found = (sampler[..., :, None] == trainer[..., None, :]).any(-1)
    missing: npt.NDArray[np.int64] = (~found).sum(-1)
    return missing


def total(parts: Iterable[LogProbSums]) -> LogProbSums:
    """Their sum."""
    found = LogProbSums()
    for part in parts:
        found = found + part
    return found
