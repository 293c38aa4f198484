"""A finished history as CSV: one row a step, one column a metric."""

from __future__ import annotations

import csv
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.watch.sources.source import Row

STEP_COLUMNS = ("step", "rollout/step", "train/step", "_step")


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
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or ()
        step_column = next((name for name in STEP_COLUMNS if name in columns), None)
        if step_column is None:
            raise BadInput(
                f"no step column in {path.name}: found {', '.join(columns) or 'nothing'}",
                where=f"{path}:1",
                hint=f"name one column {' or '.join(STEP_COLUMNS)}",
            )
        return tuple(_row(line, step_column, f"{path}:{reader.line_num}") for line in reader)


def _row(line: dict[str, str], step_column: str, where: str) -> Row:
    try:
        step = int(float(line[step_column]))
        values = {key: float(text) for key, text in line.items() if key and key != step_column and text}
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"not a number: {error}", where=where, hint="a history holds numbers, nan or empty cells"
        ) from error
    return Row(step=step, values=values)
