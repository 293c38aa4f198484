"""A finished history as CSV: one row a step, one column a metric."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path
from typing import Final

from t1cli.errors import BadInput
from t1cli.watch.sources.source import Row

MAX_BYTES: Final = 256 * 2**20
STEP_COLUMNS = ("step", "rollout/step", "rollout_step", "train/step", "train/global_step", "global_step", "_step")
SECONDS_COLUMNS = (
    "time",
    "_timestamp",
    "wall_s",
    "_runtime",
    "runtime_s",
    "wall_time",
    "seconds",
    "time_s",
    "elapsed_s",
)
HOURS_COLUMNS = ("hours", "wall_h", "runtime_h", "time_h", "elapsed_h")
DURATION_COLUMNS = ("perf/step_time", "timing_s/step")


class CsvFile:
    """All rows of a CSV export at the first poll."""

    def __init__(self, path: Path) -> None:
        self._rows = _read(path)
        self._given = False

    def poll(self) -> tuple[Row, ...]:
        """Every row, once."""
        if self._given:
            return ()
        self._given = True
        return self._rows

    @property
    def finished(self) -> bool:
        """A CSV file never grows."""
        return self._given


def _read(path: Path) -> tuple[Row, ...]:
    if path.stat().st_size > MAX_BYTES:
        hint = "export the columns that rules look at, or watch the run itself"
        raise BadInput(f"{path.name} has more than {MAX_BYTES:,} bytes", str(path), hint)
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        try:
            return _with_clock(_rows(reader, path))
        except csv.Error as error:
            hint = "expected comma-separated values, one row a step"
            raise BadInput(f"no CSV: {error}", f"{path}:{reader.line_num + 1}", hint) from error


def _rows(reader: csv.DictReader[str], path: Path) -> tuple[Row, ...]:
    columns = [name for name in reader.fieldnames or () if name is not None]
    step_column = next((name for name in STEP_COLUMNS if name in columns), None)
    if step_column is None:
        raise BadInput(
            f"no step column in {path.name}: found {', '.join(columns) or 'nothing'}",
            where=f"{path}:1",
            hint=f"name one column {' or '.join(STEP_COLUMNS)}",
        )
    rows = (_row(line, step_column, f"{path}:{reader.line_num}") for line in reader)
    return tuple(row for row in rows if row is not None)


def _row(line: dict[str, str], step_column: str, where: str) -> Row | None:
    if not (line.get(step_column) or "").strip():
        return None
    try:
        step = int(float(line[step_column]))
        values = {
            key: number
            for key, text in line.items()
            if key and key != step_column and (number := _number(text, key)) is not None
        }
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"not a number: {error}", where=where, hint="a history holds numbers, nan or empty cells"
        ) from error
    clock = _clock(values)
    for column in (*SECONDS_COLUMNS, *HOURS_COLUMNS):
        values.pop(column, None)
    return Row(step=step, values=values, time=clock)


def _number(text: str | list[str] | None, column: str) -> float | None:
    if not isinstance(text, str) or not text.strip():
        return None
    if text.strip().lower() in ("none", "null"):
        return None
    try:
        return float(text)
    except ValueError:
        if column in SECONDS_COLUMNS:
            return datetime.fromisoformat(text.strip()).timestamp()
        raise


def _clock(values: dict[str, float]) -> float | None:
    for column in SECONDS_COLUMNS:
        if column in values:
            return values[column]
    return next((values[column] * 3600 for column in HOURS_COLUMNS if column in values), None)


def _with_clock(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Without a clock column, the steps' own durations make one."""
    duration = next((name for name in DURATION_COLUMNS if any(name in row.values for row in rows)), None)
    if duration is None or any(row.time is not None for row in rows):
        return rows
    clock, timed = 0.0, []
    for row in rows:
        clock += row.values.get(duration, 0.0)
        timed.append(Row(row.step, row.values, clock))
    return tuple(timed)
