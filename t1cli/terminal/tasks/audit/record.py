"""Verdicts on disk, one line each, so that an interrupted audit goes on and no task is paid for twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t1cli.records import append_line, read_lines
from t1cli.terminal.tasks.audit.verdict import Malformed, Verdict, from_store, stored
from t1cli.terminal.tasks.record_place import require_place


class Key(NamedTuple):
    """What a verdict belongs to; another task, judge or prompt asks again."""

    digest: str
    judge: str
    prompt: str


class VerdictRecord:
    """An append-only file of verdicts; no path keeps them in memory alone."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            require_place(path)
        self._path = path
        self._known: dict[Key, Verdict] = {}
        for content in read_lines(path) if path is not None else ():
            self._take(content)

    def get(self, key: Key) -> Verdict | None:
        return self._known.get(key)

    def add(self, key: Key, task: str, verdict: Verdict) -> None:
        """Append a verdict."""
        self._known[key] = verdict
        if self._path is not None:
            append_line(self._path, {**key._asdict(), "task": task, "verdict": stored(verdict)})

    def _take(self, content: Mapping[str, Any]) -> None:
        try:
            key = Key(*(str(content[name]) for name in Key._fields))
            self._known[key] = from_store(content["verdict"])
        except (ValueError, KeyError, TypeError, Malformed):
            return  # not ours: that task is asked about again
