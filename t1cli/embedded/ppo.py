"""One PPO step in the T1 report's order: the critic first, then the actor under the behaviour snapshot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from t1cli.embedded.batches import MicroBatch
from t1cli.embedded.explained_variance import value_fit
from t1cli.embedded.gae import gae, rewards_at_end
from t1cli.embedded.losses import (
    RatioClip,
    policy_loss,
    token_entropy,
    token_log_probs,
    truncated_weight,
    value_loss,
)
from t1cli.embedded.metrics import Metrics
from t1cli.embedded.model import TinyMoE
from t1cli.embedded.role import Role
from t1cli.embedded.routing_study import mismatch
from t1cli.run.metric_names import LOGPROB_GAP, MISMATCH_KL
from t1cli.spec.algorithm import PPO


@dataclass(frozen=True)
class ActorSettings:
    """What the actor's pass needs of the spec."""

    clip: RatioClip
    temperature: float
    tis_limit: float


class Sums:
    """Sums over micro-batches, by metric name."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def add(self, name: str, value: Tensor | float) -> None:
        self.values[name] = self.values.get(name, 0.0) + float(value)


def critic_pass(role: Role, batches: Sequence[MicroBatch], algorithm: PPO) -> tuple[list[Tensor], Metrics]:
    """Advantages (B, P) per micro-batch and the critic's metrics, after one clipped value step.

    The values before the update feed both the advantages and the anchor of the value clip. The critic never replays
    routing: its regression target needs no fidelity to the sampler.
    """
    old_values = [_values(role.model, batch) for batch in batches]
    estimates = [
        gae(
            rewards_at_end(batch.rewards, batch.response), old, batch.response, gamma=algorithm.gamma, lam=algorithm.lam
        )
        for batch, old in zip(batches, old_values, strict=True)
    ]
    sums = Sums()
    role.zero_grad()
    for batch, old, (advantages, returns) in zip(batches, old_values, estimates, strict=True):
        values = role.model(batch.inputs).values
        result = value_loss(values, old, returns, batch.weight, algorithm.critic.value_clip)
        result.loss.backward()  # type: ignore[no-untyped-call]
        sums.add("train/critic-value_loss", result.loss.detach())
        sums.add("train/critic-value_clipfrac", result.clip_fraction)
        sums.add("rollout/values", (old * batch.weight).sum())
        sums.add("rollout/returns", (returns * batch.weight).sum())
        sums.add("rollout/advantages", (advantages * batch.weight).sum())
    norm = role.step()
    metrics: Metrics = dict(sums.values)
    metrics["train/critic-grad_norm"] = norm
    metrics["train/critic-lr-pg_0"] = role.learning_rate
    metrics |= _fit_metrics(batches, old_values, [returns for _, returns in estimates])
    return [advantages for advantages, _ in estimates], metrics


@torch.no_grad()
def behaviour_log_probs(model: TinyMoE, batches: Sequence[MicroBatch], temperature: float) -> list[Tensor]:
    """Log-probs (B, P) of the trained tokens per micro-batch, under the routing that the batches carry."""
    return [
        token_log_probs(model(batch.inputs, routed_experts=batch.routing).logits, batch.targets, temperature)
        for batch in batches
    ]


def actor_pass(
    role: Role,
    batches: Sequence[MicroBatch],
    advantages: Sequence[Tensor],
    old_log_probs: Sequence[Tensor],
    settings: ActorSettings,
) -> Metrics:
    """One clipped surrogate step against `old_log_probs`, replaying the routing that the batches carry."""
    sums, tokens = Sums(), sum(float(batch.loss_mask.sum()) for batch in batches)
    role.zero_grad()
    for batch, advantage, old in zip(batches, advantages, old_log_probs, strict=True):
        logits = role.model(batch.inputs, routed_experts=batch.routing).logits
        new = token_log_probs(logits, batch.targets, settings.temperature)
        result = policy_loss(new, old, advantage, batch.weight, settings.clip)
        result.loss.backward()  # type: ignore[no-untyped-call]
        sums.add("train/pg_loss", result.loss.detach())
        sums.add("train/pg_clipfrac", result.clip_fraction)
        sums.add("train/ppo_kl", result.kl)
        sums.add("train/ois", result.ratio)
        sums.add("train/entropy_loss", _entropy(logits.detach(), batch, settings.temperature))
        _add_mismatch(sums, batch, old, settings.tis_limit, tokens)
    metrics: Metrics = dict(sums.values)
    metrics["train/loss"] = metrics["train/pg_loss"]
    metrics["train/grad_norm"] = role.step()
    metrics["train/lr-pg_0"] = role.learning_rate
    return metrics


def _add_mismatch(sums: Sums, batch: MicroBatch, old: Tensor, tis_limit: float, tokens: float) -> None:
    tis = truncated_weight(old, batch.rollout_log_probs, batch.weight, tis_limit)
    sums.add("train/tis", tis.mean)
    sums.add("train/tis_clipfrac", tis.clip_fraction)
    sums.add("train/tis_abs", tis.distance)
    # Divided by all loss tokens of the step: a mean over micro-batches or a group-sum denominator inflates the figure
    # by orders of magnitude under small micro-batches (T1 report, section 09).
    found = mismatch(batch, old)
    sums.add(LOGPROB_GAP, found.absolute / max(tokens, 1.0))
    sums.add(MISMATCH_KL, found.k3 / max(tokens, 1.0))
    sums.add("rollout/log_probs", (old * batch.weight).sum())
    sums.add("rollout/rollout_log_probs", (batch.rollout_log_probs * batch.weight).sum())


def _entropy(logits: Tensor, batch: MicroBatch, temperature: float) -> Tensor:
    """Weighted mean entropy; only loss positions are computed, the vocabulary softmax is what costs."""
    inside = batch.loss_mask.bool()
    return (token_entropy(logits[inside], temperature) * batch.weight[inside]).sum()


@torch.no_grad()
def _values(model: TinyMoE, batch: MicroBatch) -> Tensor:
    values: Tensor = model(batch.inputs).values
    return values


def _fit_metrics(batches: Sequence[MicroBatch], values: Sequence[Tensor], returns: Sequence[Tensor]) -> Metrics:
    inside = [batch.loss_mask.bool() for batch in batches]
    owners = [
        torch.tensor(batch.row_indices)[:, None].expand_as(mask)[mask]
        for batch, mask in zip(batches, inside, strict=True)
    ]
    fit = value_fit(_joined(values, inside), _joined(returns, inside), torch.cat(owners).numpy())
    return {
        "train/explained_variance": _or_nan(fit.explained_variance),
        "train/explained_variance_rows": _or_nan(fit.explained_variance_rows),
        "train/value_mean": fit.value_mean,
        "train/return_mean": fit.return_mean,
        "train/return_std": fit.return_std,
    }


def _joined(tensors: Sequence[Tensor], inside: Sequence[Tensor]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return torch.cat([tensor[mask] for tensor, mask in zip(tensors, inside, strict=True)]).numpy()


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
