"""Incremental reading of a JSONL metrics file: ours, verl's or prime-rl's; whole lines, restarts and truncation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG
from typing import Final

from t1cli.errors import CouldNotAsk
from t1cli.watch.sources.flat_row import flat_row
from t1cli.watch.sources.source import Row

LONGEST_LINE_BYTES: Final = 64 * 2**20
"""No row of a metrics file is longer; what is, is no row."""


class MetricsFile:
    """A JSONL file that may still grow.

    Ours has `rollout/step` or `train/step`, with the names that are not finite in `nan`; verl's has
    `{"step", "data": {…}}` with null for NaN and is truncated by a restart; prime-rl's is flat, with several rows a
    step, and leaves out what is not finite.
    """

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
        rows: list[Row] = []
        try:
            rows += (row for line in self._new_lines() if (row := self._row(line)) is not None)
        except FileNotFoundError:
            pass
        except OSError as error:
            message = f"cannot read {self._path}: {error.strerror}"
            raise CouldNotAsk(message, str(self._path), "check the path and its permissions") from error
        self._drained = finished
        return tuple(rows)

    @property
    def finished(self) -> bool:
        """True once the writer was done before the last poll."""
        return self._drained

    def _new_lines(self) -> Iterator[bytes]:
        """Complete lines behind the last call's, one at a time: a whole history is never held as text."""
        stat = self._path.stat()
        if not S_ISREG(stat.st_mode):  # a pipe would be waited for, a device never ends
            raise OSError(EINVAL, "no regular file")
        with self._path.open("rb") as file:
            if stat.st_ino != self._inode or stat.st_size < self._offset:
                self._inode, self._offset = stat.st_ino, 0
            file.seek(self._offset)
            while line := file.readline(LONGEST_LINE_BYTES):
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE_BYTES:
                    return  # torn: read again once its end is there
                self._offset += len(line)
                yield line

    def _row(self, line: bytes) -> Row | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        if isinstance(found.get("data"), dict):
            outer = {key: value for key, value in found.items() if key != "data"}
            return flat_row({**found["data"], **outer}, null_is_nan=True)
        listed = found.pop("nan", None)
        not_finite = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        return flat_row(found, steps_per_rollout=self._steps_per_rollout, also_nan=not_finite)
