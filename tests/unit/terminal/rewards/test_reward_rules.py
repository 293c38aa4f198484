"""What a verdict is worth: counts are absolute, failures fall back, and length never pays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.spec.reward import (
    AdditiveLength,
    Binary,
    CtrfCount,
    EfficiencyBonus,
    Fallback,
    MultiplicativeLength,
    PassRatio,
    Reward,
)
from t1cli.terminal.rewards.reward import RewardRule, accuracy_of, reward_of
from t1cli.terminal.rewards.verdict import CtrfState, Verdict

UNUSABLE: tuple[CtrfState, ...] = ("empty", "missing", "corrupt", "stale")


def verdict(
    passed: int, total: int, *, ctrf: CtrfState = "ok", solved: bool | None = None, expected: int | None = None
) -> Verdict:
    return Verdict(passed == total if solved is None else solved, ctrf, passed, total, expected, 0.1)


def value(found: Verdict, reward: Reward, turns: int = 1, response_tokens: int = 1000) -> float:
    return reward_of(found, reward, turns=turns, response_tokens=response_tokens).value


counts = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair)))


@pytest.mark.catalogue("R2")
@given(counts, st.integers(1, 80), st.integers(0, 80))
def test_ctrf_count_is_an_absolute_count_over_a_fixed_scale(pair: tuple[int, int], expected: int, extra: int) -> None:
    passed, total = pair
    if total == 0:
        return
    found = reward_of(verdict(passed, total, expected=expected), CtrfCount(), turns=1, response_tokens=1)
    assert found.value == passed / 20 and found.source == "ctrf"
    # Neither the task's number of tests nor what the oracle reports enters it.
    assert value(verdict(passed, total + extra, solved=False, expected=None), CtrfCount()) == found.value


def test_a_large_task_earns_more_than_one() -> None:
    assert value(verdict(40, 40), CtrfCount()) == 2.0
    assert value(verdict(55, 60), CtrfCount()) == 2.75


@pytest.mark.catalogue("R3")
@pytest.mark.parametrize("state", UNUSABLE)
def test_an_unusable_report_falls_back_and_never_scores_a_solved_task_zero(state: CtrfState) -> None:
    solved, unsolved = verdict(0, 0, ctrf=state, solved=True), verdict(0, 0, ctrf=state, solved=False)
    for reward in (CtrfCount(fallback=Fallback(value=0.3)), PassRatio(fallback=Fallback(value=0.3))):
        found = reward_of(solved, reward, turns=1, response_tokens=1)
        assert (found.value, found.source, found.binary, found.accuracy) == (0.3, "fallback", 1.0, 1.0)
        assert value(unsolved, reward) == 0.0
    assert reward_of(solved, Binary(), turns=1, response_tokens=1).source == "binary"


def test_a_report_that_disagrees_still_counts_tests_and_solved_stays_the_verifiers_word() -> None:
    found = reward_of(verdict(3, 3, ctrf="disagree", solved=False), CtrfCount(), turns=1, response_tokens=1)
    assert (found.value, found.source, found.binary) == (0.15, "ctrf", 0.0)


@given(counts, st.integers(1, 80))
def test_ratio_counts_tests_that_never_ran_as_failed(pair: tuple[int, int], expected: int) -> None:
    passed, total = pair
    if total == 0:
        return
    found = verdict(passed, total, expected=expected)
    ratio = passed / max(total, expected)
    assert accuracy_of(found) == ratio
    assert value(found, PassRatio()) == ratio
    assert value(found, PassRatio(signed=True)) == pytest.approx(2 * ratio - 1)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 200), st.integers(1, 200))
def test_a_multiplicative_discount_is_free_inside_the_zone_and_falls_beyond(
    passed: int, failed: int, turns: int, more: int
) -> None:
    if passed + failed == 0:
        return
    reward = CtrfCount(length=MultiplicativeLength())
    found = verdict(passed, passed + failed)
    here, later = value(found, reward, turns), value(found, reward, turns + more)
    assert here >= later
    if turns <= 25:
        assert here == passed / 20
    if passed == 0:
        assert here == (0.0 if turns <= 25 else -0.05)
    else:
        assert here > 0.0


@pytest.mark.catalogue("R7")
def test_five_tests_by_rambling_are_worth_less_than_four_at_a_healthy_length() -> None:
    reward = CtrfCount(length=MultiplicativeLength())
    assert value(verdict(5, 5), reward, turns=50) < value(verdict(4, 5), reward, turns=22)
    # The additive form that the T1 report saw fail: rambling to 50 turns for one more test pays.
    additive = CtrfCount(length=AdditiveLength(penalty_per_turn=0.001, allow=True))
    assert value(verdict(5, 5), additive, turns=50) > value(verdict(4, 5), additive, turns=22)


@pytest.mark.catalogue("R8")
@given(st.integers(0, 100), st.booleans())
def test_the_length_floor_acts_before_the_signed_map(response_tokens: int, signed: bool) -> None:
    reward = PassRatio(signed=signed, min_response_tokens=30)
    factor = min(1.0, response_tokens / 30)
    solved = value(verdict(2, 2), reward, response_tokens=response_tokens)
    assert solved == pytest.approx(2 * factor - 1 if signed else factor)
    # A short failure keeps its full penalty.
    assert value(verdict(0, 2), reward, response_tokens=response_tokens) == (-1.0 if signed else 0.0)


@pytest.mark.catalogue("R6")
def test_the_efficiency_bonus_reaches_short_solves_only() -> None:
    reward = Binary(length=EfficiencyBonus(bonus=0.5, free_turns=10))
    assert value(verdict(1, 1), reward, turns=5) == 1.25
    assert value(verdict(1, 1), reward, turns=10) == 1.0
    assert value(verdict(0, 1), reward, turns=1) == 0.0
    assert RewardRule(reward)(verdict(1, 1), turns=0, response_tokens=1).value == 1.5
