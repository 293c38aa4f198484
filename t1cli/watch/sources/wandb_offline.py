"""W&B offline runs: one or several `.wandb` files of one run, merged by run id."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput, CouldNotAsk
from t1cli.watch.sources.flat_row import flat_row
from t1cli.watch.sources.source import Row
from t1cli.watch.sources.wandb_log import HEADER_BYTES, fields, read_records

# Numbers of the fields of wandb.proto that are read here.
HISTORY, RUN, EXIT, OUTPUT_RAW = 2, 17, 18, 13
ITEM, RUN_ID, LINE = 1, 1, 3
KEY, NESTED_KEY, BOOLEAN, INTEGER, NUMBER, TEXT, VALUE_JSON = 1, 2, 4, 5, 6, 7, 16


class WandbOffline:
    """All `.wandb` files under a path. A killed writer leaves no exit record: only `is_finished` ends a watch."""

    def __init__(
        self, path: Path, *, steps_per_rollout: int = 1, is_finished: Callable[[], bool] = lambda: True
    ) -> None:
        self._path = path
        self._steps_per_rollout = steps_per_rollout
        self._is_finished = is_finished
        self._offsets: dict[Path, int] = {}
        self.run_ids: dict[Path, str] = {}
        self.exited: set[Path] = set()
        """Files whose writer said goodbye."""
        self.console: list[str] = []
        """The last console lines that the run recorded."""
        self.finished = False

    def poll(self) -> tuple[Row, ...]:
        """Rows that are new in any file. Raises BadInput when the files belong to several runs."""
        finished = self._is_finished()
        rows: list[Row] = []
        try:
            for path in self._files():
                rows += self._new_rows(path)
        except OSError as error:
            raise CouldNotAsk(f"cannot read {self._path}: {error}") from error
        if len(set(self.run_ids.values())) > 1:
            raise BadInput(
                f"several runs under {self._path}: {', '.join(sorted(set(self.run_ids.values())))}",
                hint="name one run's directory or file",
            )
        self.finished = finished
        return tuple(sorted(rows, key=lambda row: row.time or 0.0))

    def _files(self) -> list[Path]:
        return [self._path] if self._path.is_file() else sorted(filter(Path.is_file, self._path.rglob("*.wandb")))

    def _new_rows(self, path: Path) -> list[Row]:
        rows = []
        for record in read_records(path, self._offsets.get(path, HEADER_BYTES)):
            self._offsets[path] = record.next_offset
            try:
                rows += self._rows_of(path, record.data)
            except (ValueError, struct.error, RecursionError):
                continue  # whole by its checksum, and yet nothing that W&B writes: passed over like any foreign line
        return rows

    def _rows_of(self, path: Path, message: bytes) -> list[Row]:
        rows = []
        for number, value in fields(message):
            if number == HISTORY and isinstance(value, bytes):
                row = flat_row(_history(value), steps_per_rollout=self._steps_per_rollout)
                rows += [row] if row is not None else []
            elif number == RUN and isinstance(value, bytes):
                self.run_ids[path] = next((_text(v) for n, v in fields(value) if n == RUN_ID), "")
            elif number == EXIT:
                self.exited.add(path)
            elif number == OUTPUT_RAW and isinstance(value, bytes):
                lines = [_text(v) for n, v in fields(value) if n == LINE]
                self.console = [*self.console, *lines][-1000:]
        return rows


def _history(message: bytes) -> dict[str, Any]:
    found = {}
    for number, value in fields(message):
        if number == ITEM and isinstance(value, bytes):
            key, item = _item(value)
            found[key] = item
    return found


def _item(message: bytes) -> tuple[str, Any]:
    key, nested, value = "", [], None
    for number, raw in fields(message):
        if number == KEY:
            key = _text(raw)
        elif number == NESTED_KEY:
            nested.append(_text(raw))
        elif number == VALUE_JSON:
            value = json.loads(_text(raw))
        elif number in (BOOLEAN, INTEGER, NUMBER):
            value = raw
        elif number == TEXT:
            value = _text(raw)
    return "/".join(nested) or key, value


def _text(raw: object) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
