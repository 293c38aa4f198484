"""Truncated importance weights as metrics: what slime's own function computes, with the loss left as it is."""

from __future__ import annotations

from typing import Any


def recorded(args: Any, *, pg_loss: Any, train_log_probs: Any, rollout_log_probs: Any, loss_masks: Any) -> Any:
    """(loss unchanged, masks unchanged, per-token metrics): weight, share of clipped weights, distance from 1.

    slime v0.3.0, `loss.py:vanilla_tis_function`, multiplies the loss by the weight; the T1 report only records it.
    """
    import torch

    with torch.no_grad():
        weight = torch.exp(torch.cat(list(train_log_probs)) - torch.cat(list(rollout_log_probs)))
        clipped = weight.clamp(min=args.tis_clip_low, max=args.tis_clip)
        metrics = {"tis": weight, "tis_clipfrac": (clipped != weight).float(), "tis_abs": (weight - 1).abs()}
    return pg_loss, loss_masks, metrics
