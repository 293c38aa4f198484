"""Metric series as the rules see them: ordered by step, last writer wins, cut at a rewind."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

from t1cli.watch.sources.source import Row

UNKNOWN_CADENCE = 10.0


@dataclass
class Series:
    """One metric. `steps` is strictly increasing; `values` has the same length; `finite` has no NaN or infinity."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    finite_steps: list[int] = field(default_factory=list)
    finite: list[float] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    """For each point, which frame of the run brought it: the run's own clock."""
    _sums: list[float] = field(default_factory=lambda: [0.0])
    _best: dict[int, tuple[int, float]] = field(default_factory=dict)

    def put(self, step: int, value: float, frame: int = 0) -> None:
        """Append, or rewrite from a smaller step on."""
        self.cut(step)
        self.steps.append(step)
        self.values.append(value)
        self.frames.append(frame)
        if math.isfinite(value):
            self.finite_steps.append(step)
            self.finite.append(value)
            self._sums.append(self._sums[-1] + value)

    def cut(self, step: int) -> None:
        """Forget everything from this step on."""
        if not self.steps or self.steps[-1] < step:
            return
        keep = bisect_left(self.steps, step)
        del self.steps[keep:], self.values[keep:], self.frames[keep:]
        keep = bisect_left(self.finite_steps, step)
        del self.finite_steps[keep:], self.finite[keep:], self._sums[keep + 1 :]
        self._best.clear()

    def best_mean(self, points: int) -> float | None:
        """The largest mean of `points` consecutive finite values so far; None before there are as many."""
        if len(self.finite) < points:
            return None
        begin, best = self._best.get(points, (points, -math.inf))
        for end in range(begin, len(self.finite) + 1):
            best = max(best, (self._sums[end] - self._sums[end - points]) / points)
        self._best[points] = (len(self.finite) + 1, best)
        return best

    def up_to(self, step: int, points: int) -> list[float]:
        """The last `points` finite values at or before a step."""
        end = bisect_right(self.finite_steps, step)
        return self.finite[max(0, end - points) : end]

    @property
    def cadence(self) -> float:
        """Frames between two points, as learned from the last twenty; ten while there are fewer than three."""
        if len(self.frames) < 3:
            return UNKNOWN_CADENCE
        recent = self.frames[-21:]
        gaps = sorted(later - earlier for earlier, later in pairwise(recent))
        return float(max(1, gaps[len(gaps) // 2]))


class History:
    """Every metric seen so far."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self.frame = -1
        """Number of the newest frame."""
        self.last_step = -1
        self.last_time: float | None = None

    def add(self, row: Row) -> None:
        """Take in the values of one step."""
        self.frame += 1
        self.put(row)
        self.last_step = row.step
        self.last_time = row.time if row.time is not None else self.last_time

    def put(self, row: Row) -> None:
        """Add values to the newest frame."""
        for name, value in row.values.items():
            self.series.setdefault(name, Series()).put(row.step, value, self.frame)

    def rewind(self, step: int) -> None:
        """Forget every metric's points from this step on: a resumed run does them again."""
        for series in self.series.values():
            series.cut(step)

    def repeats(self, row: Row) -> bool:
        """Whether a row brings steps of its own metrics again."""
        return any(
            (known := self.series.get(name)) is not None and known.steps and known.steps[-1] >= row.step
            for name in row.values
        )

    def get(self, name: str) -> Series | None:
        """A metric's series, or None while it has not been seen."""
        return self.series.get(name)

    def latest(self, name: str) -> float | None:
        """The newest finite value of a metric."""
        known = self.series.get(name)
        return known.finite[-1] if known is not None and known.finite else None

    def frames_since(self, name: str) -> int | None:
        """Frames that have gone by since the metric's last point; None while it has never been seen."""
        known = self.series.get(name)
        return self.frame - known.frames[-1] if known is not None and known.frames else None
