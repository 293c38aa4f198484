"""Length shaping over every test count and every turn count up to 100: what farming tests by rambling pays."""

from __future__ import annotations

import itertools

import pytest

from t1cli.spec.reward import AdditiveLength, CtrfCount, MultiplicativeLength
from t1cli.terminal.rewards.reward import reward_of
from t1cli.terminal.rewards.verdict import Verdict

COUNTS = TURNS = range(101)
SHAPED = CtrfCount(length=MultiplicativeLength())
FREE_TURNS = SHAPED.length.free_turns


def value(passed: int, turns: int, reward: CtrfCount = SHAPED) -> float:
    verdict = Verdict(solved=False, ctrf="ok", passed=passed, total=100, expected=100, seconds=1.0)
    return reward_of(verdict, reward, turns=turns, response_tokens=500).value


def test_every_value_falls_with_turns_and_rises_with_tests() -> None:
    for passed in COUNTS:
        values = [value(passed, turns) for turns in TURNS]
        assert values == sorted(values, reverse=True)
        assert len(set(values[: FREE_TURNS + 1])) == 1, "the free zone costs nothing"
        assert min(values) >= 0.0 if passed else min(values) == -SHAPED.length.zero_pass_penalty
    for turns in TURNS:
        values = [value(passed, turns) for passed in COUNTS]
        assert all(more > less for less, more in itertools.pairwise(values))


@pytest.mark.catalogue("R7")
def test_one_test_more_never_pays_for_doubling_a_healthy_length() -> None:
    """R7: from two tests on, what 50 turns or more add to n tests is worth less than n tests within the free zone."""
    for passed in range(2, 100):
        healthy = value(passed, FREE_TURNS)
        assert all(value(passed + 1, turns) < healthy for turns in range(50, 101)), passed


@pytest.mark.catalogue("R5")
def test_a_discount_takes_a_share_and_a_penalty_does_not() -> None:
    """R5: under an additive penalty below a test's worth, rambling on for one more test pays at every count."""
    additive = CtrfCount(length=AdditiveLength(penalty_per_turn=0.001, free_turns=22, allow=True))
    for passed in range(1, 100):
        assert value(passed + 1, 50, additive) > value(passed, 22, additive)
        kept = value(passed, 100) / value(passed, FREE_TURNS)
        assert abs(kept - value(1, 100) / value(1, FREE_TURNS)) < 1e-12, "the same share at every count"
