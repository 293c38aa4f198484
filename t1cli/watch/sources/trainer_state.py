"""Hugging Face's `trainer_state.json`: a list of logged objects that is rewritten at every save."""

from __future__ import annotations

import json
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.watch.sources.flat_row import flat_row
from t1cli.watch.sources.source import Row


class TrainerState:
    """The whole history at the first poll, and what was added at later ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = 0
        self.finished = False

    def poll(self) -> tuple[Row, ...]:
        """Entries that are new. Raises BadInput when the file has no `log_history`."""
        try:
            history = json.loads(self._path.read_text(encoding="utf-8"))["log_history"]
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{self._path.name} has no log_history", where=str(self._path)) from error
        self._taken = 0 if len(history) < self._taken else self._taken
        new, self._taken, self.finished = history[self._taken :], len(history), True
        return tuple(row for entry in new if (row := flat_row(entry)) is not None)
