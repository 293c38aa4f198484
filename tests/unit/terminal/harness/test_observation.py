"""Observations: what the policy is told, and cutting in the middle to a token budget."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from t1cli.terminal.harness.chat_template import CUT_MARKER, cut_middle
from t1cli.terminal.harness.observation import observation_text
from t1cli.terminal.sandbox.sandbox import ExecResult

COUNTERS: list[Callable[[str], int]] = [
    lambda text: len(text.encode("utf-8", "surrogatepass")),
    lambda text: (len(text) + 3) // 4,
    lambda text: len(text.split()),
]


@pytest.mark.parametrize("count_tokens", COUNTERS)
@given(text=st.text(max_size=3000), max_tokens=st.integers(1, 400))
@hypothesis_settings(max_examples=60, deadline=None)
def test_a_cut_fits_keeps_both_ends_and_leaves_short_text_alone(
    count_tokens: Callable[[str], int], text: str, max_tokens: int
) -> None:
    cut = cut_middle(text, max_tokens=max_tokens, count_tokens=count_tokens)
    assert count_tokens(cut) <= max_tokens
    if len(text) <= 16 * max_tokens and count_tokens(text) <= max_tokens:
        assert cut == text
    elif cut:
        head, _, tail = cut.partition(CUT_MARKER)
        assert text.startswith(head) and text.endswith(tail)
        assert 0 <= len(head) - len(tail) <= 1


def test_a_cut_of_bytes_uses_the_whole_budget() -> None:
    cut = cut_middle("a" * 500 + "z" * 500, max_tokens=100, count_tokens=len)
    assert len(cut) == 100 and cut.startswith("a") and cut.endswith("z") and CUT_MARKER in cut


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ExecResult("", 0, False, 0.1), ""),
        (ExecResult("a\nb\n", 0, False, 0.1), "a\nb"),
        (ExecResult("a\n", 2, False, 0.1), "a\nexit code 2"),
        (ExecResult("", 1, False, 0.1), "exit code 1"),
        (ExecResult("part\n", 124, True, 5.0), "part\ntimed out after 5 s"),
    ],
)
def test_the_policy_sees_output_status_and_time_limit(result: ExecResult, text: str) -> None:
    assert observation_text(result, timeout_seconds=5.0) == text
