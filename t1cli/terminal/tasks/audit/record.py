"""Verdicts on disk, one line each, so that an interrupted audit goes on and no task is paid for twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

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
        text = path.read_text(encoding="utf-8", errors="replace") if path is not None and path.exists() else ""
        self._torn = bool(text) and not text.endswith("\n")
        for line in text.splitlines():
            self._take(line)

    def get(self, key: Key) -> Verdict | None:
        return self._known.get(key)

    def add(self, key: Key, task: str, verdict: Verdict) -> None:
        """Append a verdict; a line that an earlier run left unfinished is ended first."""
        self._known[key] = verdict
        if self._path is None:
            return
        line = json.dumps({**key._asdict(), "task": task, "verdict": stored(verdict)})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("\n" if self._torn else "") + line + "\n")
        self._torn = False

    def _take(self, line: str) -> None:
        try:
            content = json.loads(line)
            key = Key(*(str(content[name]) for name in Key._fields))
            self._known[key] = from_store(content["verdict"])
        except (ValueError, KeyError, TypeError, Malformed):
            return  # cut off, or not ours: that task is asked about again
