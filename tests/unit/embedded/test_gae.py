"""Advantages against a slow reference that follows the definition term by term."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.embedded.gae import gae, rewards_at_end

ROW = st.tuples(st.integers(0, 3), st.lists(st.floats(-2, 2), min_size=1, max_size=6), st.integers(0, 2))


def slow_advantages(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """A_t as the discounted sum of temporal differences, written out."""
    after = [*values[1:], 0.0]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards, after, values, strict=True)]
    return [sum((gamma * lam) ** k * delta for k, delta in enumerate(deltas[t:])) for t in range(len(deltas))]


@settings(max_examples=50, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=4), st.floats(0.5, 1.0), st.floats(0.0, 1.0), st.floats(-1, 1))
def test_matches_the_definition_on_padded_rows(
    rows: list[tuple[int, list[float], int]], gamma: float, lam: float, reward: float
) -> None:
    width = max(start + len(values) + pad for start, values, pad in rows)
    values, response = torch.full((len(rows), width), 7.0), torch.zeros(len(rows), width, dtype=torch.bool)
    for place, (start, row_values, _) in enumerate(rows):
        values[place, start : start + len(row_values)] = torch.tensor(row_values)
        response[place, start : start + len(row_values)] = True
    placed = rewards_at_end(torch.full((len(rows),), reward), response)
    advantages, returns = gae(placed, values, response, gamma=gamma, lam=lam)
    assert bool((advantages[~response] == 0).all()) and bool((returns[~response] == 0).all())
    for place, (start, row_values, _) in enumerate(rows):
        expected = slow_advantages([0.0] * (len(row_values) - 1) + [reward], row_values, gamma, lam)
        found = advantages[place, start : start + len(row_values)].tolist()
        assert found == pytest.approx(expected, abs=1e-4)


def test_without_discount_every_return_is_the_reward() -> None:
    response = torch.tensor([[False, True, True, True]])
    placed = rewards_at_end(torch.tensor([0.35]), response)
    assert placed.tolist() == [[0.0, 0.0, 0.0, pytest.approx(0.35)]]
    advantages, returns = gae(placed, torch.tensor([[9.0, 0.1, 0.2, 0.3]]), response, gamma=1.0, lam=1.0)
    assert returns[0, 1:].tolist() == pytest.approx([0.35] * 3)
    assert advantages[0, 1:].tolist() == pytest.approx([0.25, 0.15, 0.05])


def test_a_row_without_response_is_an_error() -> None:
    with pytest.raises(ValueError, match="response"):
        rewards_at_end(torch.tensor([1.0]), torch.tensor([[False, False]]))
