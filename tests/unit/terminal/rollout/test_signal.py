"""Which tasks carry the gradient is measured, not assumed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.terminal.rollout.signal import signal_shares


def trial(group: int, task: str, reward: float | None) -> Any:
    plan = SimpleNamespace(group_id=group, task=SimpleNamespace(name=task))
    scored = None if reward is None else SimpleNamespace(value=reward)
    return SimpleNamespace(plan=plan, family=task.split("-")[0], reward=scored)


@pytest.mark.catalogue("L8")
def test_siblings_are_compared_with_each_other() -> None:
    """A group of equal rewards carries nothing, however large they are."""
    easy = [trial(0, "easy-1", 5.0), trial(0, "easy-1", 5.0)]
    hard = [trial(1, "hard-1", 0.0), trial(1, "hard-1", 1.0)]
    found = signal_shares([*easy, *hard])
    assert found["terminal/signal_share/easy"] == 0.0
    assert found["terminal/signal_share/hard"] == 1.0


@pytest.mark.catalogue("L8")
def test_five_tasks_of_ten_that_carry_everything_are_twice_their_part() -> None:
    carrying = [trial(n, f"a-{n}", value) for n in range(5) for value in (0.0, 1.0)]
    constant = [trial(n, f"a-{n}", 1.0) for n in range(5, 10) for _ in range(2)]
    found = signal_shares([*carrying, *constant])
    assert (found["terminal/signal_top_share"], found["terminal/signal_concentration"]) == (1.0, 2.0)


def test_a_small_pool_is_no_concentration() -> None:
    found = signal_shares([trial(n, f"a-{n}", float(n)) for n in range(3)])
    assert found["terminal/signal_concentration"] == pytest.approx(1.0)


def test_equal_rewards_and_lost_trials_have_no_share() -> None:
    assert signal_shares([trial(0, "a-1", 1.0), trial(1, "a-2", 1.0), trial(2, "a-3", None)]) == {}
    assert signal_shares([]) == {}
