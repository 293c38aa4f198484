"""JSON on disk: objects that appear whole or not at all, and logs of one object a line that survive a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one object aside, flush it to disk and rename it into place."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file aside, flush it to disk and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None when the file is absent, torn or not an object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


class LineLog:
    """Appends one JSON object a line; every line reaches the kernel in one write before `append` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        repair_last_line(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def append(self, value: Mapping[str, Any]) -> None:
        """Add one object. Non-finite floats must have been replaced: they are a ValueError."""
        line = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str) + "\n"
        remaining = memoryview(line.encode())
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def repair_last_line(path: Path) -> None:
    """Make a file end in a newline: a whole last object gets one, a torn one is cut off."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("r+b") as stream:
        content = stream.read()
        if content.endswith(b"\n"):
            return
        start = content.rfind(b"\n") + 1
        if _is_object(content[start:]):
            stream.write(b"\n")
        else:
            stream.truncate(start)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole object of a log, in order; a torn or foreign line is passed over, an absent file is empty."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return
    for line in content.split(b"\n"):
        if line and _is_object(line):
            yield json.loads(line)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
