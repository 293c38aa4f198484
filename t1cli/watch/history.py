"""Metric series as the rules see them: ordered by step, last writer wins, a rewind starts a new segment."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field

from t1cli.watch.sources.source import Row


@dataclass
class Series:
    """One metric. `steps` is strictly increasing; `values` has the same length."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def put(self, step: int, value: float) -> None:
        """Append, or rewrite from a smaller step on after a rewind (resume from a checkpoint)."""
        while self.steps and self.steps[-1] >= step:
            self.steps.pop()
            self.values.pop()
        self.steps.append(step)
        self.values.append(value)


class History:
    """Every metric seen so far."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self.last_step = -1
        self.last_time: float | None = None
        self.first_time: float | None = None

    def add(self, row: Row) -> None:
        """Take in one row."""
        for name, value in row.values.items():
            self.series.setdefault(name, Series()).put(row.step, value)
        self.last_step = row.step
        if row.time is not None:
            self.last_time = row.time
            self.first_time = row.time if self.first_time is None else self.first_time

    def get(self, name: str) -> Series | None:
        """A metric's series, or None while it has not been seen."""
        return self.series.get(name)

    def matching(self, pattern: str) -> list[str]:
        """Names that a glob matches, sorted."""
        return sorted(fnmatch.filter(self.series, pattern))
