"""Reads metrics.jsonl back as series over a step axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from t1cli.launch.json_files import read_lines
from t1cli.launch.metric_names import AXES


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
    axis = next((axis for axis in AXES if isinstance(line.get(axis), int)), None)
    if axis is None:
        return None
    step, moment = line[axis], line.get("time")
    values = {k: _number(v) for k, v in line.items() if k not in (axis, "time", "nan") and _is_metric(v)}
    return MetricRow(
        float(moment) if isinstance(moment, int | float) else 0.0, axis, step if isinstance(step, int) else 0, values
    )


def _is_metric(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
