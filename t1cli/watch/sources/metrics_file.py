"""Incremental reading of a `metrics.jsonl`: whole lines only, restarts and truncation noticed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG
from typing import Any

from t1cli.errors import CouldNotAsk
from t1cli.launch.metrics_reader import LAST_STEP
from t1cli.watch.sources.source import Row

AXES = ("rollout/step", "train/step", "eval/step")


class MetricsFile:
    """A `metrics.jsonl` that may still grow."""

    def __init__(
        self, path: Path, *, steps_per_rollout: int = 1, is_finished: Callable[[], bool] = lambda: True
    ) -> None:
        self._path = path
        self._steps_per_rollout = steps_per_rollout
        self._is_finished = is_finished
        self._offset = 0
        self._inode: int | None = None
        self._drained = False

    def poll(self) -> tuple[Row, ...]:
        """Rows of the complete lines that appeared since the last call; a torn last line waits for its end."""
        finished = self._is_finished()
        try:
            text = self._read_new()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            message = f"cannot read {self._path}: {error.strerror}"
            raise CouldNotAsk(message, str(self._path), "check the path and its permissions") from error
        self._drained = finished
        return tuple(row for line in text.splitlines() if (row := self._row(line)) is not None)

    @property
    def finished(self) -> bool:
        """True once the writer was done before the last poll."""
        return self._drained

    def _read_new(self) -> bytes:
        stat = self._path.stat()
        if not S_ISREG(stat.st_mode):  # a pipe would be waited for, a device never ends
            raise OSError(EINVAL, "no regular file")
        with self._path.open("rb") as file:
            if stat.st_ino != self._inode or stat.st_size < self._offset:
                self._inode, self._offset = stat.st_ino, 0
            file.seek(self._offset)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        return complete

    def _row(self, line: bytes) -> Row | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        step = self._step(found)
        if step is None:
            return None
        values = {key: number for key, value in found.items() if (number := _number(value)) is not None}
        absent = found.get("nan")
        values.update({key: math.nan for key in absent if isinstance(key, str)} if isinstance(absent, list) else {})
        for axis in AXES:
            values.pop(axis, None)
        time = values.pop("time", None)
        return Row(step=step, values=values, time=time)

    def _step(self, found: dict[str, Any]) -> int | None:
        for axis in AXES:
            step = found.get(axis)
            if isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= LAST_STEP:
                return step // self._steps_per_rollout if axis == "train/step" else step
        return None


def _number(value: object) -> float | None:
    """Numbers and the string spellings of NaN and infinity; everything else is not a metric."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.nan
    if isinstance(value, str) and value.lower() in ("nan", "infinity", "-infinity", "inf", "-inf"):
        return float(value.lower())
    return None
