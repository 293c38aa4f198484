"""Pauses double up to their limit and differ between callers; a name's seed is the same for good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.terminal.backoff import backoff_seconds
from t1cli.terminal.seeds import request_seed, seed_of

SECONDS = st.floats(0.001, 1e4)


@given(failures=st.integers(1, 10**6), first=SECONDS, longest=SECONDS, asked=st.just(0.0) | SECONDS)
def test_a_pause_is_at_least_half_of_what_is_wanted_and_never_above_the_limit(
    failures: int, first: float, longest: float, asked: float
) -> None:
    wanted = min(longest, max(asked, first * 2.0 ** min(failures - 1, 20)))
    seconds = backoff_seconds(failures, first=first, longest=longest, asked=asked)
    assert wanted / 2 * 0.999 <= seconds <= wanted * 1.001 and seconds <= longest * 1.001


def test_those_who_failed_together_do_not_meet_again() -> None:
    assert len({backoff_seconds(3, first=1.0, longest=60.0) for _ in range(20)}) == 20


@pytest.mark.parametrize(("seed", "name", "expected"), [(0, "r0-g0-s0-a0", 374417259), (7, 3, 287060127)])
def test_seeds_do_not_change_between_versions(seed: int, name: object, expected: int) -> None:
    assert (seed_of(seed, name), request_seed(seed, name)) == (expected, expected >> 1)
