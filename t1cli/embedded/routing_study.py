"""What routing replay changes, measured on the very batch that is trained: flips, and the gap without replay."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from t1cli.embedded.batches import MicroBatch
from t1cli.embedded.losses import token_log_probs
from t1cli.embedded.model import TinyMoE
from t1cli.terminal.trajectory.mismatch import LogProbSums, RoutingSums, log_prob_sums, routing_sums


def free_routing_metrics(model: TinyMoE, batches: Sequence[MicroBatch], temperature: float) -> dict[str, float]:
    """Flips, and gap and mismatch KL of a forward pass that routes freely; empty when replay is off.

    A set flips when the trainer would choose other experts than the sampler did, whatever their order. `flipped_sets`
    counts (position, layer) cells, `flipped_rows` positions with at least one flipped layer, `flipped_experts` single
    experts.
    """
    if any(batch.routing is None for batch in batches):
        return {}
    flips, free = RoutingSums(), LogProbSums()
    for batch in batches:
        logits, experts = free_forward(model, batch)
        log_probs = token_log_probs(logits, batch.targets, temperature)
        real = real_positions(batch)
        assert batch.routing is not None
        flips = flips + routing_sums(experts[real].numpy(), batch.routing[real].numpy())
        free = free + mismatch(batch, log_probs)
    return {
        **flips.to_metrics(),
        "train/train_rollout_logprob_abs_diff_free_routing": free.gap,
        "train/mismatch_kl_free_routing": free.kl,
    }


def mismatch(batch: MicroBatch, log_probs: Tensor) -> LogProbSums:
    """Sums over the trained tokens of one micro-batch, whose log-probs (B, P) the trainer gave."""
    return log_prob_sums(log_probs.numpy(), batch.rollout_log_probs.numpy(), batch.loss_mask.numpy())


@torch.no_grad()
def free_forward(model: TinyMoE, batch: MicroBatch) -> tuple[Tensor, Tensor]:
    """Logits (B, P, V) and experts (B, P, L, K) of one micro-batch whose recorded routing is left alone."""
    output = model(batch.inputs)
    assert output.logits is not None
    return output.logits, output.routed_experts


def real_positions(batch: MicroBatch) -> Tensor:
    """(B, P) bool: every position of a row that is no padding, the prompt's included."""
    positions = torch.arange(batch.response.shape[1]).expand_as(batch.response)
    last = positions.masked_fill(~batch.response, -1).amax(dim=1, keepdim=True)
    return positions <= last
