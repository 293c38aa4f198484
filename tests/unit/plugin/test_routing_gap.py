"""Gap and mismatch KL: one division by all trained tokens, whatever the micro-batches and ranks they lie on."""

from __future__ import annotations

import math
from argparse import Namespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.errors import T1Error
from t1cli.plugin.hooks import explain_variance
from t1cli.plugin.routing import gap
from t1cli.terminal.trajectory.mismatch import REDUCER_BUG, LogProbSums, log_prob_sums, routing_sums, total

COUNTS = {"rollout_batch_size": 4, "n_samples_per_prompt": 1, "global_batch_size": 4}


def samples(seed: int, count: int, *, size: float = 0.02) -> dict[str, list[torch.Tensor]]:
    """Responses of 5 to 60 tokens, log-probs `size` apart on average, observations masked."""
    random = np.random.default_rng(seed)
    lengths = random.integers(5, 60, count)
    sampler = [torch.tensor(-random.random(n), dtype=torch.float32) for n in lengths]
    away = [torch.tensor(random.choice([-1, 1], n) * size * 2 * random.random(n)).float() for n in lengths]
    masks = [torch.tensor((random.random(n) < 0.8).astype(np.int32)) for n in lengths]
    masks[0][:] = 1
    return {
        "rollout_log_probs": sampler,
        "log_probs": [s + d for s, d in zip(sampler, away, strict=True)],
        "loss_masks": masks,
    }


def part(data: dict[str, list[torch.Tensor]], indices: range) -> dict[str, list[torch.Tensor]]:
    return {name: [values[i] for i in indices] for name, values in data.items()}


def naive_group_sum(data: dict[str, list[torch.Tensor]], group: int) -> float:
    """The wrong reducer (F6): each micro-batch of one sample divides by the group's count, not by its tokens."""
    sizes = [
        float(((a - b).abs() * m).sum())
        for a, b, m in zip(data["log_probs"], data["rollout_log_probs"], data["loss_masks"], strict=True)
    ]
    return sum(sizes) / (len(sizes) / group)


@pytest.mark.catalogue("F6")
def test_the_right_reducer_and_the_naive_one_beside_it() -> None:
    data = samples(1, 64)
    found = gap.local_sums(None, data).gap
    flat = torch.cat([(a - b).abs()[m.bool()] for a, b, m in zip(*_columns(data), strict=True)])
    assert found == pytest.approx(float(flat.double().mean()), rel=1e-6) and 0.015 < found < 0.025
    wrong = naive_group_sum(data, group=64)
    assert wrong > 500 * found and wrong > REDUCER_BUG, "a mean |gap| above 1 is a reducer's bug, not a divergence"


def _columns(data):
    return data["log_probs"], data["rollout_log_probs"], data["loss_masks"]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 9))
def test_however_the_batch_is_cut_the_figures_stay(seed: int, count: int, cut: int) -> None:
    data = samples(seed, count)
    whole = gap.local_sums(None, data)
    pieces = total(gap.local_sums(None, part(data, range(i, min(i + cut, count)))) for i in range(0, count, cut))
    assert pieces.tokens == whole.tokens
    assert pieces.gap == pytest.approx(whole.gap, rel=1e-12) and pieces.kl == pytest.approx(whole.kl, rel=1e-12)


def test_what_is_not_trained_may_be_anything() -> None:
    found = log_prob_sums(np.array([0.0, math.nan, -1.0]), np.array([0.1, 5.0, -1.1]), np.array([1, 0, 1]))
    assert found.tokens == 2 and found.gap == pytest.approx(0.1)
    assert math.isnan(LogProbSums().gap) and math.isnan(LogProbSums().kl)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_mismatch_kl_is_never_negative_and_zero_for_equal_log_probs(values: list[float]) -> None:
    zeros, ones = np.zeros(len(values)), np.ones(len(values))
    assert log_prob_sums(np.array(values), zeros, ones).kl >= 0.0
    assert log_prob_sums(zeros, zeros, ones).kl == 0.0


def test_k3_estimates_the_kl_from_the_sampler_to_the_trainer() -> None:
    """Weighted by the sampler's own probabilities it is KL(p ‖ q) exactly, p the sampler."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
    per_token = [log_prob_sums(np.log(q[[i]]), np.log(p[[i]]), np.ones(1)).kl for i in range(3)]
    assert float(np.dot(p, per_token)) == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-9)


def test_flips_are_counted_as_sets() -> None:
    sampler = np.array([[[0, 1], [2, 3]], [[0, 1], [2, 3]], [[0, 1], [2, 3]]])
    trainer = np.array([[[1, 0], [3, 2]], [[0, 4], [2, 3]], [[5, 4], [3, 0]]])
    metrics = routing_sums(trainer, sampler).to_metrics()
    assert metrics == {
        "train/routing_flipped_rows": 2 / 3,
        "train/routing_flipped_sets": 3 / 6,
        "train/routing_flipped_experts": 4 / 12,
    }


def test_the_hook_logs_the_mismatch_and_stops_at_the_gate(namespace, monkeypatch) -> None:
    from slime.utils import logging_utils

    monkeypatch.setattr(gap, "_checked", set())
    args = namespace("rollout.first_gap_limit=0.05", **COUNTS)
    explain_variance(args, 2, samples(3, 4))
    (row,) = logging_utils.rows
    assert 0.01 < row["train/log_prob_gap"] < 0.03 and row["train/mismatch_kl"] > 0 and row["train/step"] == 2
    explain_variance(args, 3, samples(4, 4, size=0.5))  # only a session's first rollout is at equal weights
    fresh = namespace("rollout.first_gap_limit=0.05", "name=another", **COUNTS)
    with pytest.raises(T1Error, match="before the first step"):
        explain_variance(fresh, 0, samples(5, 4, size=0.5))
    unlimited = namespace("rollout.first_gap_limit=null", "name=third", **COUNTS)
    explain_variance(unlimited, 0, samples(6, 4, size=0.5))


def test_a_critic_has_no_log_probs_and_no_gate(namespace) -> None:
    explain_variance(Namespace(), 0, {"values": []})
