"""PPO's losses against values worked out by hand, and slime's reduction over trials."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from t1cli.embedded.explained_variance import value_fit
from t1cli.embedded.losses import (
    RatioClip,
    policy_loss,
    token_entropy,
    token_log_probs,
    truncated_weight,
    value_loss,
)

CLIP = RatioClip(0.2, 0.2)


def test_policy_loss_takes_the_pessimistic_branch() -> None:
    # ratio 1.5 with A = 2: the clipped -1.2 * 2 is worse than -1.5 * 2. ratio 0.5 with A = -1: clipped 0.8.
    new = torch.log(torch.tensor([[1.5, 0.5, 1.1, 9.0]])).requires_grad_()
    weight = torch.tensor([[0.25, 0.25, 0.5, 0.0]])
    result = policy_loss(new, torch.zeros(1, 4), torch.tensor([[2.0, -1.0, 1.0, 5.0]]), weight, CLIP)
    assert result.loss.item() == pytest.approx(0.25 * -2.4 + 0.25 * 0.8 + 0.5 * -1.1)
    assert result.clip_fraction.item() == pytest.approx(0.5)
    assert result.kl.item() == pytest.approx(-(0.25 * math.log(1.5) + 0.25 * math.log(0.5) + 0.5 * math.log(1.1)))
    result.loss.backward()
    assert new.grad is not None
    # A clipped token pulls no longer; an unweighted one never did.
    assert new.grad[0].tolist() == pytest.approx([0.0, 0.0, -0.55, 0.0])


def test_policy_loss_ignores_infinite_log_probs_outside_the_loss_region() -> None:
    new = torch.tensor([[0.0, -math.inf]], requires_grad=True)
    result = policy_loss(new, torch.zeros(1, 2), torch.ones(1, 2), torch.tensor([[1.0, 0.0]]), CLIP)
    result.loss.backward()
    assert result.loss.item() == -1.0 and new.grad is not None and bool(new.grad.isfinite().all())


def test_value_loss_is_anchored_to_the_values_before_the_update() -> None:
    # Moved by 0.5 towards the return 1: the clipped value 0.2 is further away, so its error counts.
    result = value_loss(torch.tensor([[0.5, 0.1]]), torch.zeros(1, 2), torch.ones(1, 2), torch.full((1, 2), 0.5), 0.2)
    assert result.loss.item() == pytest.approx(0.5 * 0.64 + 0.5 * 0.81)
    assert result.clip_fraction.item() == pytest.approx(0.5)


def test_truncated_weight_is_cut_at_the_limit() -> None:
    old, rollout = torch.log(torch.tensor([[3.0, 0.5]])), torch.zeros(1, 2)
    found = truncated_weight(old, rollout, torch.full((1, 2), 0.5), 2.0)
    assert found.mean.item() == pytest.approx(1.25)
    assert found.clip_fraction.item() == pytest.approx(0.5)
    assert found.distance.item() == pytest.approx(1.25)


def test_log_probs_and_entropy_follow_the_sampling_temperature() -> None:
    logits = torch.tensor([[[math.log(1.0), math.log(9.0)]]])
    assert token_log_probs(logits, torch.tensor([[1]]), 2.0).item() == pytest.approx(math.log(0.75), abs=1e-6)
    assert token_entropy(logits, 2.0).item() == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25), abs=1e-6)


def test_explained_variance_is_unbounded_below_and_undefined_without_variance() -> None:
    owner = np.array([0, 0, 1, 1])
    returns = np.array([0.0, 0.0, 1.0, 1.0], np.float32)
    assert value_fit(returns, returns, owner).explained_variance == pytest.approx(1.0)
    assert value_fit(np.full(4, 0.5, np.float32), returns, owner).explained_variance == pytest.approx(0.0)
    assert value_fit(10 * returns, returns, owner).explained_variance == pytest.approx(-80.0)
    flat = value_fit(returns, np.full(4, 0.3, np.float32), owner)
    assert flat.explained_variance is None and flat.explained_variance_rows is None
    assert flat.return_mean == pytest.approx(0.3)


def test_explained_variance_by_row_counts_each_row_once() -> None:
    values = np.array([0.0, 0.2, 1.0], np.float32)
    returns = np.array([0.1, 0.1, 1.0], np.float32)
    fit = value_fit(values, returns, np.array([4, 4, 7]))
    assert fit.explained_variance_rows == pytest.approx(1.0)
    assert fit.explained_variance is not None and fit.explained_variance < 1.0
