"""Which terms are alive together: the moments of a step that can be its peak, per stage and role."""

from __future__ import annotations

from memory_model.prediction import TRAIN_BACKWARD, TRAIN_FORWARD
from memory_model.terms import activations, buffers, gradients, logits, lora, optimizer, rollout, weights
from memory_model.terms.term import Situation

Terms = dict[str, float]
"""Bytes by term name."""


def states(at: Situation) -> Terms:
    """Weights, gradients and optimizer state of the stage."""
    counts = at_counts(at)
    setup = at.workload.optimizer
    return {
        "weights": weights.weight_bytes(counts, at.workload.kernels),
        "gradients": gradients.gradient_bytes(counts, setup),
        "optimizer": optimizer.optimizer_bytes(counts, at.layout, setup),
    }


def at_counts(at: Situation) -> weights.LocalCounts:
    """Parameters on one GPU of the stage; under LoRA only the adapters are trained."""
    counts = weights.local_counts(
        at.arch,
        at.layout,
        at.stage,
        gdn_form=at.workload.gdn_form,
        with_mtp=at.workload.train_mtp,
        critic=at.role == "critic",
    )
    if not at.workload.lora_rank:
        return counts
    return weights.LocalCounts(lora.adapter_parameters(at), 0.0, counts.total)


def phases(at: Situation) -> dict[str, Terms]:
    """Every phase of the role's step as the terms of its worst moment, in bytes."""
    held = states(at)
    act = activations.stage_activations(at)
    base = {**held, **buffers.fixed_buffers(at)}
    forward = "values forward" if at.role == "critic" else "log-probs forward"
    found = {
        forward: _forward_only(at, base, act),
        TRAIN_FORWARD: _loss(at, base, act),
        TRAIN_BACKWARD: _backward(at, base, act),
        "optimizer step": {**base, "optimizer step": _step(at)},
    }
    if at.role == "actor" and at.workload.loss.is_rl:
        found["weight push"] = {**base, "gathered weights": rollout.weight_push_bytes(at)}
    return found


def _forward_only(at: Situation, base: Terms, act: activations.StageActivations) -> Terms:
    """The worse of a layer in the middle and the head at the end; nothing is kept between them."""
    head = {"head": _head_norms(at), **_logits(at, logits.logit_bytes(at.workload.loss).forward)}
    layer = {"layer working set": act.forward_transient}
    return {**base, **(head if sum(head.values()) > act.forward_transient else layer)}


def _loss(at: Situation, base: Terms, act: activations.StageActivations) -> Terms:
    """All micro-batches in flight are kept and the newest computes its loss."""
    per_logit = logits.logit_bytes(at.workload.loss)
    terms = {**base, "activations": act.kept_at_loss, "head": _head_norms(at)}
    return {**terms, **_logits(at, max(per_logit.forward, per_logit.loss_backward)), **_mtp(at)}


def _backward(at: Situation, base: Terms, act: activations.StageActivations) -> Terms:
    """The worse of the head's backward and the last layer's."""
    per_logit = logits.logit_bytes(at.workload.loss)
    head = {
        "head": logits.head_transient_bytes(at) + logits.head_weight_gradient_bytes(at),
        **_logits(at, per_logit.head_backward),
        **_mtp(at),
    }
    layer = {"recomputed layer": act.recomputed, "layer gradients": act.backward_transient}
    worse = head if sum(head.values()) > sum(layer.values()) else layer
    return {**base, "activations": act.kept_at_backward, **worse}


def _logits(at: Situation, bytes_per_logit: float) -> Terms:
    count = logits.local_logits(at)
    return {"logits": count * bytes_per_logit} if count else {}


def _mtp(at: Situation) -> Terms:
    kept = logits.mtp_logit_bytes(at)
    return {"MTP logits": kept} if kept else {}


def _head_norms(at: Situation) -> float:
    """Final norm's input and output and the gathered hidden states."""
    if not at.stage.has_head:
        return 0.0
    gathered = at.tokens if at.layout.sequence_shards > 1 else 0
    return 2.0 * at.arch.hidden_size * (2 * at.sequence_tokens + gathered)


def _step(at: Situation) -> float:
    return optimizer.step_transient_bytes(at_counts(at), at.layout, at.workload.optimizer)
