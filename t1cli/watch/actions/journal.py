"""What a run's watchers have told and done, so that a restarted one neither repeats nor forgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from t1cli.records import LineLog, read_lines
from t1cli.run.directory import RunDirectory


def watch_dir(run: RunDirectory) -> Path:
    """Where watchers of a run keep their files."""
    return run.watch


class Journal:
    """`watch/journal.jsonl`: one line per thing done, with the key of its alert."""

    def __init__(self, run: RunDirectory, *, clock: Callable[[], float] = time.time) -> None:
        self._path = watch_dir(run) / "journal.jsonl"
        self._clock = clock
        self._done: dict[str, set[str]] = {}
        for line in read_lines(self._path):
            self._done.setdefault(str(line.get("did")), set()).add(str(line.get("key")))

    def keys(self, did: str) -> set[str]:
        """Keys for which something was done: `told`, `delivered`, `stop`, `pause`, `acknowledged`."""
        return set(self._done.get(did, ()))

    def has(self, did: str, key: str) -> bool:
        """Whether it was done, by this watcher or one before it."""
        return key in self._done.get(did, ())

    def note(self, did: str, key: str, **details: object) -> None:
        """Write it down before going on."""
        self._done.setdefault(did, set()).add(key)
        log = LineLog(self._path)
        log.append({"time": self._clock(), "did": did, "key": key, **details})
        log.close()
