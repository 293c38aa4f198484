"""The paired bootstrap finds real gains, and finds none where there is none."""

from __future__ import annotations

import random

import pytest

from t1cli.embedded.bootstrap import paired_gain


def _trials(rng: random.Random, chances: list[float]) -> dict[str, list[float]]:
    return {f"task-{i}": [float(rng.random() < p) for _ in range(8)] for i, p in enumerate(chances)}


def test_a_real_gain_lies_above_zero() -> None:
    rng = random.Random(0)
    chances = [rng.uniform(0.1, 0.8) for _ in range(60)]
    gain = paired_gain(_trials(rng, chances), _trials(rng, [p + 0.15 for p in chances]))
    assert gain.above_zero and gain.low < 0.15 < gain.high
    assert gain.gain == pytest.approx(gain.after - gain.before)


def test_intervals_cover_no_gain_about_as_often_as_they_say() -> None:
    covered = 0
    for seed in range(40):
        rng = random.Random(seed)
        chances = [rng.uniform(0.1, 0.9) for _ in range(60)]
        covered += paired_gain(_trials(rng, chances), _trials(rng, chances), seed=seed).contains_zero
    assert covered >= 36


def test_pairing_narrows_the_interval() -> None:
    before = {f"task-{i}": [i % 2 * 1.0] * 8 for i in range(60)}
    after = {name: [min(1.0, value + 0.1) for value in values] for name, values in before.items()}
    gain = paired_gain(before, after)
    assert gain.high - gain.low < 0.05


def test_unequal_task_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        paired_gain({"a": [1.0]}, {"b": [1.0]})
    with pytest.raises(ValueError, match="same tasks"):
        paired_gain({}, {})
