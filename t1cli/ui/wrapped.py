"""Text in lines, with every word whole: a path or an option that is cut in the middle cannot be pasted."""

from __future__ import annotations

import textwrap


def wrapped(text: str, width: int, *, first: str = "", rest: str | None = None) -> list[str]:
    """Lines of at most `width` columns, more where one word has more; `rest` begins all lines but the `first`.

    Without `rest` the others are indented as far as `first` reaches.
    """
    indent = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
