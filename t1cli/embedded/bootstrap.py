"""Gain of one policy over another on the same tasks, with a paired bootstrap interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True)
class Gain:
    """Means over tasks before and after, and the 95 % interval of their difference."""

    before: float
    after: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        return self.after - self.before

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low > 0

    @property
    def contains_zero(self) -> bool:
        return self.low <= 0 <= self.high


def paired_gain(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], *, seed: int = 0) -> Gain:
    """Trials by task name on both sides; tasks are resampled, and within each task its trials on either side.

    Resampling both levels lets the interval carry the sampling noise of trials as well as the choice of tasks
    (Efron and Tibshirani 1993, chapter 8). Raises ValueError unless both sides hold the same tasks.
    """
    if before.keys() != after.keys() or not before:
        raise ValueError("both sides must hold the same tasks, at least one")
    random = np.random.default_rng(seed)
    names = sorted(before)
    differences = np.stack(
        [_resampled_means(after[name], random) - _resampled_means(before[name], random) for name in names], axis=1
    )
    chosen = random.integers(0, len(names), size=(RESAMPLES, len(names)))
    means = np.take_along_axis(differences, chosen, axis=1).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Gain(_mean(before), _mean(after), float(low), float(high))


def _resampled_means(
    trials: Sequence[float], random: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(RESAMPLES,) means of as many draws with replacement as there are trials."""
    values = np.asarray(trials, dtype=np.float64)
    means: np.ndarray[tuple[int], np.dtype[np.float64]] = random.choice(values, size=(RESAMPLES, len(values))).mean(
        axis=1
    )
    return means


def _mean(trials: Mapping[str, Sequence[float]]) -> float:
    return float(np.mean([np.mean(values) for values in trials.values()]))
