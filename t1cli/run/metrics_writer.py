"""Writes metrics.jsonl, the run's own record, and hands the same rows to the trackers a spec asks for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from t1cli.records import LineLog
from t1cli.run.metric_names import AXES, EVAL_STEP, ROLLOUT_STEP, TRAIN_STEP

Clock = Callable[[], float]


class Tracker(Protocol):
    """Another place for metrics. A tracker that fails is dropped; the campaign goes on."""

    name: str

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """Record values at a step of `rollout/step`, `train/step` or `eval/step`."""
        ...

    def close(self) -> None:
        """Flush and finish."""
        ...


class MetricsWriter:
    """One object a line: `time` (Unix seconds), one step axis, values, and in `nan` the names that are not finite."""

    def __init__(
        self,
        path: Path,
        *,
        trackers: Sequence[Tracker] = (),
        on_tracker_failure: Callable[[str, str], None] = lambda name, reason: None,
        clock: Clock = time.time,
    ) -> None:
        self._log = LineLog(path)
        self._trackers = list(trackers)
        self._on_tracker_failure = on_tracker_failure
        self._clock = clock

    def rollout(self, rollout_id: int, values: Mapping[str, float]) -> None:
        """`rollout/*`, `perf/*` and `terminal/*` of one rollout."""
        self._write(ROLLOUT_STEP, rollout_id, values)

    def train(self, step: int, values: Mapping[str, float]) -> None:
        """`train/*` of one optimizer step: rollout id × steps per rollout + step within it."""
        self._write(TRAIN_STEP, step, values)

    def eval(self, rollout_id: int, values: Mapping[str, float]) -> None:
        """`eval/*` after one rollout."""
        self._write(EVAL_STEP, rollout_id, values)

    def close(self) -> None:
        """Close the file and the trackers; safe to call twice."""
        self._log.close()
        while self._trackers:
            tracker = self._trackers.pop()
            self._guard(tracker, tracker.close)

    def _write(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        row = metric_row(axis, step, values, self._clock())
        self._log.append(row)
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        for tracker in tuple(self._trackers):
            self._guard(tracker, lambda tracker=tracker: tracker.log(axis, step, finite))  # type: ignore[misc]

    def _guard(self, tracker: Tracker, action: Callable[[], None]) -> None:
        # The boundary of the trackers: a dead metric store must not end a campaign.
        try:
            action()
        except Exception as failure:
            if tracker in self._trackers:
                self._trackers.remove(tracker)
            self._on_tracker_failure(tracker.name, f"{type(failure).__name__}: {failure}")


def metric_row(axis: str, step: int, values: Mapping[str, float], now: float) -> dict[str, object]:
    """The line for metrics.jsonl. Raises ValueError on a name that belongs to the row itself."""
    taken = sorted(set(values) & {*AXES, "time", "nan"})
    if taken:
        raise ValueError(f"metric names that a row uses itself: {', '.join(taken)}")
    row: dict[str, object] = {"time": now, axis: int(step)}
    not_finite = []
    for name, value in values.items():
        number = float(value)
        if math.isfinite(number):
            row[name] = int(number) if isinstance(value, int) else number
        else:
            row[name] = None
            not_finite.append(name)
    if not_finite:
        row["nan"] = not_finite
    return row
