"""Reads metrics.jsonl back as series over a step axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from t1cli.records import number_in, read_lines
from t1cli.run.metric_names import AXES

LAST_STEP: Final = 1_000_000_000
"""A step beyond is no step: windows and gaps are counted over the axis."""


@dataclass(frozen=True)
class MetricRow:
    """One line of metrics.jsonl."""

    time: float
    axis: str
    step: int
    values: Mapping[str, float]
    """NaN where the writer recorded a value that was not finite."""


def read_metrics(path: Path) -> tuple[MetricRow, ...]:
    """Every whole row in the order written; rows without a step axis are passed over."""
    return tuple(row for line in read_lines(path) if (row := _row(line)) is not None)


def series(rows: Iterable[MetricRow], name: str) -> dict[int, float]:
    """Step to value in step order. Where a resumed run repeated a step, the last writer wins."""
    last = {row.step: row.values[name] for row in rows if name in row.values}
    return dict(sorted(last.items()))


def _row(line: Mapping[str, object]) -> MetricRow | None:
    for axis in AXES:
        step = line.get(axis)
        if isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= LAST_STEP:
            values = {
                name: number_in(value, math.nan)
                for name, value in line.items()
                if name not in (axis, "time", "nan") and _is_metric(value)
            }
            return MetricRow(number_in(line.get("time")), axis, step, values)
    return None


def _is_metric(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
