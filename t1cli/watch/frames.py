"""Rows of several axes and processes become frames: one a step, in order, whatever order they arrived in.

A frame is held back until a step beyond the window has been seen. A row further back than the window is a rewind when
it brings steps of its own metrics again, and late when it does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from t1cli.watch.sources.source import Row


class Frames:
    """Merges rows by step inside a window of `window` steps."""

    def __init__(self, window: int = 1) -> None:
        self._window = window
        self._open: dict[int, Row] = {}
        self._newest = -1
        self._last_step_of: dict[str, int] = {}

    def add(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Take in rows; yield the frames that are complete."""
        for row in rows:
            yield from self._add(row)

    def flush(self) -> Iterator[Row]:
        """Yield what is held back: no more rows will come."""
        for step in sorted(self._open):
            yield self._open.pop(step)

    def _add(self, row: Row) -> Iterator[Row]:
        if row.step < self._newest - self._window:
            if not any(self._last_step_of.get(name, -1) >= row.step for name in row.values):
                yield row
                return
            yield from self.flush()
            self._newest = row.step
            self._last_step_of = {name: min(step, row.step) for name, step in self._last_step_of.items()}
        self._newest = max(self._newest, row.step)
        for name in row.values:
            self._last_step_of[name] = max(row.step, self._last_step_of.get(name, -1))
        self._open[row.step] = merged(self._open.get(row.step), row)
        for step in sorted(step for step in self._open if step < self._newest - self._window + 1):
            yield self._open.pop(step)


def merged(first: Row | None, second: Row) -> Row:
    """Two rows of one step as one; the second wins where both have a metric, but a NaN is never covered up.

    With several optimizer steps per rollout one frame holds them all: the last value speaks, unless an earlier step
    was not finite.
    """
    if first is None:
        return second
    times = [row.time for row in (first, second) if row.time is not None]
    kept = {name: value for name, value in first.values.items() if not math.isfinite(value)}
    return Row(second.step, {**first.values, **second.values, **kept}, max(times, default=None))
