"""Which texts a kernel takes as a path, an argument or a variable."""

from __future__ import annotations


def is_plain(text: str) -> bool:
    """Whether a text has neither a NUL, which would end it, nor half a character, which no encoding has."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
