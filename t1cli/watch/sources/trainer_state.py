"""Hugging Face's `trainer_state.json`: a list of logged objects that is rewritten at every save."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.records import read_regular
from t1cli.watch.sources.flat_row import flat_row
from t1cli.watch.sources.source import Row

MAX_BYTES = 256 * 2**20
"""A million logged steps of a few metrics; a longer history belongs in a file that is appended to."""


class TrainerState:
    """The whole history at the first poll, and what was added at later ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = 0
        self.finished = False

    def poll(self) -> tuple[Row, ...]:
        """Entries that are new. Raises BadInput when the file has no `log_history`, or more than MAX_BYTES."""
        history = self._history()
        self._taken = 0 if len(history) < self._taken else self._taken
        new, self._taken, self.finished = history[self._taken :], len(history), True
        return tuple(row for entry in new if isinstance(entry, Mapping) and (row := flat_row(entry)) is not None)

    def _history(self) -> list[Any]:
        content = read_regular(self._path, MAX_BYTES + 1) or b""
        if len(content) > MAX_BYTES:
            hint = "log to metrics.jsonl, W&B or TensorBoard, which are read piece by piece"
            raise BadInput(f"{self._path.name} has more than {MAX_BYTES:,} bytes", str(self._path), hint)
        try:
            history = json.loads(content)["log_history"]
        except (ValueError, KeyError, TypeError, RecursionError):
            history = None
        if not isinstance(history, list):
            hint = "a .json file is read as a `trainer_state.json` of Hugging Face's Trainer"
            raise BadInput(f"{self._path.name} has no list `log_history`", str(self._path), hint)
        return history
