"""What a program printed last, whole lines of it."""

from __future__ import annotations

from typing import Final

NOTHING: Final = "it printed nothing"

_LINES: Final = 8
_CHARACTERS: Final = 600


def after_colon(output: str) -> str:
    """The last lines as they follow a colon: one on the same line, several below it; says so where there are none."""
    lines = last_lines(output)
    return f"\n{lines}" if "\n" in lines else f" {lines or NOTHING}"


def last_lines(output: str) -> str:
    """The last lines, at most a few hundred characters."""
    kept: list[str] = []
    for line in reversed([line.rstrip() for line in output.splitlines() if line.strip()][-_LINES:]):
        if kept and sum(map(len, kept)) + len(line) > _CHARACTERS:
            break
        kept.insert(0, line[-_CHARACTERS:])
    return "\n".join(kept)
