"""What routing replay changes, measured on the very batch that is trained: flips, and the gap without replay."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from t1cli.embedded.batches import MicroBatch
from t1cli.embedded.losses import token_log_probs
from t1cli.embedded.model import TinyMoE


def free_routing_metrics(model: TinyMoE, batches: Sequence[MicroBatch], temperature: float) -> dict[str, float]:
    """Flip fractions and the log-prob gap of a forward pass that routes freely; empty when replay is off.

    A set flips when the trainer would choose other experts than the sampler did, whatever their order. `flipped_sets`
    counts (position, layer) cells, `flipped_rows` positions with at least one flipped layer.
    """
    if any(batch.routing is None for batch in batches):
        return {}
    flipped_sets = flipped_rows = cells = positions = 0
    gap, tokens = 0.0, 0.0
    for batch in batches:
        log_probs, flips = _free_forward(model, batch, temperature)
        real = _real_positions(batch)
        flipped_sets += int(flips[real].sum())
        flipped_rows += int(flips[real].any(-1).sum())
        cells, positions = cells + flips[real].numel(), positions + int(real.sum())
        gap += float(((log_probs - batch.rollout_log_probs).abs() * batch.loss_mask).sum(dtype=torch.float64))
        tokens += float(batch.loss_mask.sum())
    return {
        "train/routing_flipped_sets": flipped_sets / cells,
        "train/routing_flipped_rows": flipped_rows / positions,
        "train/train_rollout_logprob_abs_diff_free_routing": gap / max(tokens, 1.0),
    }


@torch.no_grad()
def _free_forward(model: TinyMoE, batch: MicroBatch, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs (B, P) and flips (B, P, L) of one micro-batch."""
    output = model(batch.inputs)
    assert output.logits is not None and batch.routing is not None
    mine, theirs = output.routed_experts.sort(-1).values, batch.routing.sort(-1).values
    return token_log_probs(output.logits, batch.targets, temperature), (mine != theirs).any(-1)


def _real_positions(batch: MicroBatch) -> Tensor:
    """(B, P) bool: every position of a row that is no padding, the prompt's included."""
    positions = torch.arange(batch.response.shape[1]).expand_as(batch.response)
    last = positions.masked_fill(~batch.response, -1).amax(dim=1, keepdim=True)
    return positions <= last
