"""PPO's losses over padded token tensors, in slime's forms.

All tensors are (B, P) over predicting positions. `weight` is loss_mask / (mask total of the trial) / (trials of the
step), so that a weighted sum over all micro-batches is slime's reduction: per-trial masked mean, then mean over trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PolicyLoss:
    """The clipped surrogate and what is logged beside it; `loss` alone carries gradients."""

    loss: Tensor
    clip_fraction: Tensor
    kl: Tensor
    """Mean old minus new log-prob (slime's `ppo_kl`, the k1 estimator)."""
    ratio: Tensor


@dataclass(frozen=True)
class ValueLoss:
    """The clipped squared error of the critic and its clipped share."""

    loss: Tensor
    clip_fraction: Tensor


@dataclass(frozen=True)
class TruncatedWeight:
    """The truncated importance weight between trainer and engine, as slime's `tis*` metrics name it."""

    mean: Tensor
    clip_fraction: Tensor
    distance: Tensor
    """Mean distance of the untruncated weight from 1."""


@dataclass(frozen=True)
class RatioClip:
    """The interval [1 - low, 1 + high] that the surrogate's ratio is clipped to."""

    low: float
    high: float


def policy_loss(new: Tensor, old: Tensor, advantages: Tensor, weight: Tensor, clip: RatioClip) -> PolicyLoss:
    """max(-r A, -clip(r) A) with r = exp(new - old) (Schulman et al. 2017, arXiv 1707.06347, eq. 7)."""
    # Outside the loss region log-probs mean nothing; a difference of 0 keeps exp finite there.
    inside = weight > 0
    log_ratio = torch.where(inside, new - old, torch.zeros_like(new))
    ratio = log_ratio.exp()
    plain = -ratio * advantages
    clipped = -ratio.clamp(1.0 - clip.low, 1.0 + clip.high) * advantages
    return PolicyLoss(
        loss=(torch.maximum(plain, clipped) * weight).sum(),
        clip_fraction=((clipped > plain).to(weight.dtype) * weight).sum().detach(),
        kl=(-log_ratio * weight).sum().detach(),
        ratio=(ratio * weight).sum().detach(),
    )


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, weight: Tensor, clip: float) -> ValueLoss:
    """max of plain and clipped squared error, no factor 1/2; the clip is anchored to the values before the update."""
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    worse = torch.maximum((clipped - returns) ** 2, (values - returns) ** 2)
    moved = ((values - old_values).abs() > clip).to(weight.dtype)
    return ValueLoss(loss=(worse * weight).sum(), clip_fraction=(moved * weight).sum().detach())


def truncated_weight(old: Tensor, rollout: Tensor, weight: Tensor, limit: float) -> TruncatedWeight:
    """exp(trainer - engine log-prob), cut at `limit`; recorded, never applied to the loss."""
    raw = torch.where(weight > 0, old - rollout, torch.zeros_like(old)).exp()
    return TruncatedWeight(
        mean=(raw.clamp(max=limit) * weight).sum(),
        clip_fraction=((raw > limit).to(weight.dtype) * weight).sum(),
        distance=((raw - 1.0).abs() * weight).sum(),
    )


def token_log_probs(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Log-probs of the targets under the sampling distribution: logits (B, P, V), targets (B, P)."""
    return torch.log_softmax(logits / temperature, dim=-1).gather(-1, targets[..., None]).squeeze(-1)


def token_entropy(logits: Tensor, temperature: float) -> Tensor:
    """Entropy in nats of each position's distribution, (B, P); for logging, so call it without gradients."""
    log_probs = torch.log_softmax(logits / temperature, dim=-1)
    return -(log_probs.exp() * log_probs).sum(-1)
