"""Text from files and command lines, made safe for a terminal: nothing in it moves the cursor or hides text."""

from __future__ import annotations

import re
from typing import Final

# Control characters but newline and tab, invisible direction marks, foreign line breaks, halves of surrogate pairs.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with every unsafe character spelled out, `\x1b` for an escape; newlines and tabs stay."""
    return _UNSAFE.sub(_spelled, text) if _UNSAFE.search(text) else text


def one_line(text: str, limit: int) -> str:
    """Printable text on one line, its middle left out when it is longer than `limit` characters."""
    shown = printable(text.replace("\n", "\\n").replace("\t", " "))
    if len(shown) <= limit:
        return shown
    kept = limit // 2
    return f"{shown[:kept]} … {len(shown) - 2 * kept} characters … {shown[-kept:]}"


def json_safe(text: str) -> str:
    """JSON text with unsafe characters as JSON escapes: the same value, and harmless on a terminal."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) if _UNSAFE.search(text) else text


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
