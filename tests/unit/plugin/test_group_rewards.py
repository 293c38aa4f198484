"""GRPO's shaping: only what is trained on counts, and a trial counts once."""

from __future__ import annotations

import statistics
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.plugin.group_rewards import group_advantages, raw_and_shaped


def sample(index: int, group: int, reward: float, *, unit: int | None = None, tokens: int = 10, removed: bool = False):
    return SimpleNamespace(
        index=index,
        group_id=unit,
        group_index=group,
        remove_sample=removed,
        effective_response_length=tokens,
        get_reward_value=lambda args: reward,
    )


GRPO = {"experiment": "qwen3-8b-grpo"}


def test_removed_samples_stay_out_of_the_mean_and_get_nothing(namespace) -> None:
    samples = [sample(0, 0, 1.0), sample(1, 0, 0.0), sample(2, 0, 0.0, removed=True), sample(3, 1, 5.0)]
    raw, shaped = raw_and_shaped(namespace("algorithm.length_normalize=false", **GRPO), samples)
    assert raw == [1.0, 0.0, 0.0, 5.0]
    scale = statistics.stdev([1.0, 0.0]) + 1e-6
    assert shaped == pytest.approx([0.5 / scale, -0.5 / scale, 0.0, 0.0])


def test_a_group_is_never_mixed_with_another(namespace) -> None:
    # Three samples of group 0 and one of group 1: slime's own shaping would take all four as one group.
    samples = [sample(i, 0, r) for i, r in enumerate((1.0, 2.0, 3.0))] + [sample(3, 1, 100.0)]
    _, shaped = raw_and_shaped(namespace("algorithm.length_normalize=false", **GRPO), samples)
    assert shaped == pytest.approx([-1.0, 0.0, 1.0, 0.0], abs=1e-5)


def test_rows_of_one_trial_count_once_and_share_its_advantage(namespace) -> None:
    split = [sample(0, 0, 1.0, unit=9), sample(1, 0, 1.0, unit=9), sample(2, 0, 0.0, unit=10)]
    whole = [sample(0, 0, 1.0, unit=9), sample(2, 0, 0.0, unit=10)]
    args = namespace("algorithm.length_normalize=false", **GRPO)
    (_, a), (_, b) = raw_and_shaped(args, split), raw_and_shaped(args, whole)
    assert a[0] == a[1] == b[0] and a[2] == b[1]


@pytest.mark.catalogue("R8")
def test_length_normalisation_divides_by_the_share_of_the_mean_length(namespace) -> None:
    samples = [sample(0, 0, 1.0, tokens=30), sample(1, 0, 0.0, tokens=10)]
    plain = raw_and_shaped(namespace("algorithm.length_normalize=false", **GRPO), samples)[1]
    shaped = raw_and_shaped(namespace("algorithm.length_normalize=true", **GRPO), samples)[1]
    assert shaped == pytest.approx([plain[0] * 20 / 30, plain[1] * 20 / 10])


def test_ppo_is_left_alone(namespace) -> None:
    samples = [sample(0, 0, 1.0), sample(1, 0, 0.0)]
    assert raw_and_shaped(namespace(), samples) == ([1.0, 0.0], [1.0, 0.0])


@given(st.dictionaries(st.integers(0, 20), st.floats(-10, 10), min_size=1, max_size=8), st.booleans())
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order(rewards: dict[int, float], std: bool) -> None:
    found = group_advantages(rewards, dict.fromkeys(rewards, 5), normalize_std=std, length_normalize=False)
    assert sum(found.values()) == pytest.approx(0.0, abs=1e-6)
    for one in rewards:
        for other in rewards:
            if rewards[one] > rewards[other]:
                assert found[one] >= found[other]
