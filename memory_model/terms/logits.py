"""Logits and loss on the last stage, bytes per local logit (tokens of the rank x padded vocabulary / tp)."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model.terms.term import Situation
from memory_model.workload import Loss


@dataclass(frozen=True)
class LogitBytes:
    """Bytes per local logit at the three moments that can be a peak."""

    forward: float
    loss_backward: float
    head_backward: float
    kept: float
    """What one earlier head's loss (MTP) keeps for its backward while the main head runs."""


def logit_bytes(loss: Loss) -> LogitBytes:
    """What the loss code keeps per logit.

    cross_entropy: bf16 logits and the fp32 softmax computed in place (6); backward reuses the softmax and casts to
      bf16 (6), megatron/core/tensor_parallel/cross_entropy.py.
    native_fused_cross_entropy: compiled pieces write the exponentials and the gradient to a fresh fp32 buffer beside
      the one they replace (10 forward, 10 backward), megatron/core/fusions/fused_cross_entropy.py explains why.
    te_cross_entropy: gradient computed in place in the bf16 logits (2), transformer_engine cross_entropy.
    slime_rl: the model returns fp32 logits (4) while bf16 (2) live, the vocabulary-parallel log-prob keeps a softmax
      (4), temperature != 1 one more fp32 copy (4), the entropy gradient one more (4), slime backends/megatron_utils.
    t1_rl: bf16 and one fp32 copy (6), the form of the T1 report.
    """
    if loss.kind == "cross_entropy":
        return LogitBytes(6, 6, 2, 4)
    if loss.kind == "native_fused_cross_entropy":
        return LogitBytes(10, 10, 2, 4)
    if loss.kind == "te_cross_entropy":
        return LogitBytes(2, 2, 2, 2)
    if loss.kind == "t1_rl":
        return LogitBytes(6, 6, 2, 4)
    extra = 4 if loss.temperature != 1.0 else 0
    entropy = 4 if loss.entropy_gradient else 0
    # Forward: 2 + 4 + 4. Backward: the softmax becomes the gradient; the fp32 logits live on only for the entropy.
    return LogitBytes(10 + extra, 8 + extra + 2 * entropy, 6, 4)


def local_logits(at: Situation) -> float:
    """Logits that one rank computes for its largest micro-batch; 0 where there are none."""
    if not at.has_logits:
        return 0.0
    return at.tokens * at.padded_vocab / at.layout.tp


def head_weight_gradient_bytes(at: Situation) -> float:
    """The head's bf16 gradient placeholder, allocated in its backward even with fused accumulation.

    megatron/core/tensor_parallel/layers.py returns an empty tensor of the weight's shape next to `main_grad`.
    """
    return 2.0 * at.padded_vocab * at.arch.hidden_size / at.layout.tp if at.has_logits else 0.0


def head_transient_bytes(at: Situation) -> float:
    """Final norm's input and output, the gathered input of the head, its gradient and the reduced gradient."""
    if not at.stage.has_head:
        return 0.0
    gathered = 2 * at.tokens if at.layout.sequence_shards > 1 else 0
    return 2.0 * at.arch.hidden_size * (3 * at.sequence_tokens + gathered)


def mtp_logit_bytes(at: Situation) -> float:
    """What the MTP heads' losses keep while the main head runs (multi_token_prediction.py runs before it)."""
    if not at.has_mtp:
        return 0.0
    return local_logits(at) * logit_bytes(at.workload.loss).kept * at.arch.mtp_num_layers
