"""Answers of expensive checks, kept between two preflights in one append-only file beside the runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from t1cli.preflight.check import Kept, Saw
from t1cli.preflight.report import Status

FILE_NAME = ".preflight.jsonl"
_MAX_BYTES = 1 << 18
"""A longer file is begun anew: everything in it can be asked again."""


@dataclass(frozen=True)
class Recalled:
    """A kept answer and its age."""

    saw: Saw
    age_seconds: float


class KeptAnswers:
    """`<runs>/.preflight.jsonl`: one answer a line, each written in one piece, so that a kill leaves no half of it."""

    def __init__(self, runs_dir: Path) -> None:
        self._path = runs_dir / FILE_NAME

    def recall(self, check_id: str, key: str, kept: Kept) -> Recalled | None:
        """The newest answer to this question that is still fresh; None when there is none or it cannot be read."""
        found = None
        for line in self._lines():
            entry = _entry(line)
            if entry.get("id") == check_id and entry.get("key") == _short(key):
                found = entry
        if found is None:
            return None
        try:
            age_seconds = time.time() - float(str(found["at"]))
            status: Status = "pass" if found["status"] == "pass" else "warn"
            saw = Saw(status, str(found["found"]), str(found["wanted"]), str(found["fix"]))
        except (KeyError, ValueError):
            return None
        # A clock that was set back makes an answer look younger than new.
        return Recalled(saw, age_seconds) if 0 <= age_seconds <= kept.seconds else None

    def keep(self, check_id: str, key: str, saw: Saw) -> None:
        """Write an answer down; a place that cannot be written to keeps nothing."""
        entry = {
            "id": check_id,
            "key": _short(key),
            "at": time.time(),
            "status": saw.status,
            "found": saw.found,
            "wanted": saw.wanted,
            "fix": saw.fix,
        }
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > _MAX_BYTES:
                self._path.unlink()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o644)
            try:
                os.write(descriptor, (json.dumps(entry) + "\n").encode())
            finally:
                os.close(descriptor)

    def _lines(self) -> list[str]:
        try:
            if self._path.is_symlink() or self._path.stat().st_size > 4 * _MAX_BYTES:
                return []
            return self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []


def _entry(line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _short(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]
