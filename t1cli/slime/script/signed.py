"""The line by which `t1 convert` knows a file that it wrote and that nobody has edited since."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LINE: Final = re.compile(
    r"^# t1 convert replaces this file while nobody has edited it \(([0-9a-f]{16})\)\.\n", re.MULTILINE
)


def signed(text: str, *, after: int) -> str:
    """The text with that line as its line `after` + 1."""
    lines = text.splitlines(keepends=True)
    line = f"# t1 convert replaces this file while nobody has edited it ({_digest(text)}).\n"
    return "".join([*lines[:after], line, *lines[after:]])


def is_unedited(text: str) -> bool:
    """Whether a text is as `signed` made it."""
    found = _LINE.search(text)
    return found is not None and _digest(text[: found.start()] + text[found.end() :]) == found.group(1)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
