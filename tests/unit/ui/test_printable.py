"""Nothing from a file or a command line steers a terminal, and JSON stays the same value."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from t1cli.ui.printable import json_safe, one_line, printable

ANY = st.text(st.characters() | st.sampled_from("\x1b\x07\x9b\u202e\ud800\r\x7f"))


@given(ANY)
def test_no_control_character_is_left(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    shown.encode()


@given(st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs"))))
def test_ordinary_text_is_untouched(text: str) -> None:
    assert printable(text) == text and json_safe(text) == text


@given(ANY, st.integers(10, 200))
def test_one_line_is_one_line_and_bounded(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert "\n" not in shown and len(shown) <= limit + 40


@given(st.dictionaries(ANY, ANY | st.integers()))
def test_json_keeps_its_value(value: dict[str, object]) -> None:
    text = json_safe(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == json.loads(json.dumps(value))
    text.encode()
