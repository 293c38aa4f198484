"""JSON on disk: objects that appear whole or not at all, and logs of one object a line that survive a kill."""

from __future__ import annotations

import json
import math
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
    content = read_regular(path)
    value = _parsed(content) if content is not None else None
    return value if isinstance(value, dict) else None


def read_regular(path: Path, at_most: int | None = None) -> bytes | None:
    """A whole file, or its first `at_most` bytes; None when no regular file is there. A pipe is never waited for."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return stream.read(-1 if at_most is None else at_most)
    except (FileNotFoundError, NotADirectoryError):
        return None


def number_in(value: object, otherwise: float = 0.0) -> float:
    """A JSON number as a finite float; `otherwise` for everything else, numbers beyond floating point included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    try:
        number = float(value)
    except OverflowError:
        return otherwise
    return number if math.isfinite(number) else otherwise


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
        if isinstance(_parsed(content[start:]), dict):
            stream.write(b"\n")
        else:
            stream.truncate(start)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole object of a log, in order; a torn or foreign line is passed over, an absent file is empty."""
    for line in (read_regular(path) or b"").split(b"\n"):
        value = _parsed(line) if line else None
        if isinstance(value, dict):
            yield value


def _parsed(content: bytes) -> Any:
    """The JSON value in a file or line; None for what is torn, foreign or nested beyond reason."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
