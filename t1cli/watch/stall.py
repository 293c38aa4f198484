"""The age of the data: a run that lives but has not logged a step for three of its own usual gaps is stalled."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from t1cli.watch.engine import Alert
from t1cli.watch.sources.source import Row

USUAL_GAPS = 3
SHORTEST_STALL_SECONDS = 60.0


@dataclass
class StallClock:
    """Learns the usual gap between steps from the rows' own times, and compares it with the time since the last."""

    began: Callable[[], float | None] = lambda: None
    """Unix seconds at which the newest session began: before it the run was not alive, so it was not stalled."""
    _step: int = -1
    _time: float | None = None
    _gaps: list[float] = field(default_factory=list)
    _told: bool = False

    @property
    def usual_seconds(self) -> float | None:
        """The usual gap between two steps; None before three are known."""
        return statistics.median(self._gaps[-50:]) if len(self._gaps) >= USUAL_GAPS else None

    def look(self, rows: Sequence[Row], now: float) -> Alert | None:
        """One alert per stall, none before three gaps are known."""
        for row in rows:
            if row.time is None or row.step == self._step:
                continue
            if self._time is not None and row.step > self._step and row.time > self._time:
                self._gaps.append(row.time - self._time)
            self._step, self._time, self._told = row.step, row.time, False
        if self._time is None or len(self._gaps) < USUAL_GAPS or self._told:
            return None
        usual = statistics.median(self._gaps[-50:])
        limit = max(USUAL_GAPS * usual, SHORTEST_STALL_SECONDS)
        if now - self._time <= limit:
            return None
        since = max(self._time, self.began() or 0.0)
        if now - since <= limit:
            return None
        self._told = True
        return Alert(
            "stalled",
            "warning",
            self._step,
            now - since,
            limit,
            "seconds since the last rollout",
            f"no rollout for {now - since:.0f} s where {usual:.0f} s are usual, and the run still lives",
            "collection at 0 with live trials is the mark of a file descriptor limit (1024) on the head's raylet; "
            "first steps after a cold start may only be compiling",
            ("S8", "C4"),
        )
