"""Every word of a wrapped text stays whole."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from t1cli.ui.wrapped import wrapped

UI = Path(__file__).parents[3] / "t1cli" / "ui"
WORDS = st.lists(st.from_regex(r"[a-z/.=-]{1,60}", fullmatch=True), min_size=1, max_size=20)


@given(words=WORDS, width=st.integers(20, 100), first=st.sampled_from(["", "  ", "✗ M1   "]))
def test_words_come_back_as_they_were(words: list[str], width: int, first: str) -> None:
    lines = wrapped(" ".join(words), width, first=first)
    assert " ".join(lines).removeprefix(first).split() == words
    assert all(len(line) <= width or len(line.split()) <= 1 + len(first.split()) for line in lines)
    assert all(line.startswith(" " * len(first)) for line in lines[1:])


def test_no_view_wraps_by_itself() -> None:
    for path in UI.glob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert "textwrap" not in names or path.name == "wrapped.py", path
