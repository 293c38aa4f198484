"""The Wilson interval against published values and its own definition."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.preflight.interval import Z_95, wilson


@pytest.mark.catalogue("R1")
def test_the_report_s_coverage() -> None:
    """56 of 60 sampled tasks wrote a report: 93%, interval 84.1% to 97.4%."""
    low, high = wilson(56, 60)
    assert (low, high) == (pytest.approx(0.8407, abs=5e-4), pytest.approx(0.9738, abs=5e-4))


def test_no_sample_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(samples=st.integers(1, 500), data=st.data())
def test_bounds_are_where_the_score_test_just_rejects(samples: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, samples))
    share = hits / samples
    low, high = wilson(hits, samples)
    assert 0 <= low <= share <= high <= 1
    for bound in (low, high):
        if 0 < bound < 1:
            assert abs(share - bound) / math.sqrt(bound * (1 - bound) / samples) == pytest.approx(Z_95, rel=1e-6)
