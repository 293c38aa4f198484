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


def logit_bytes(loss: Loss) -> LogitBytes:
    """What the loss code keeps per logit.

    cross_entropy: bf16 logits and the fp32 softmax computed in place (6); backward reuses the softmax and casts to
      bf16 (6), megatron/core/tensor_parallel/cross_entropy.py.
    native_fused_cross_entropy: the same through a fused function that keeps one more fp32 buffer alive in backward.
    te_cross_entropy: gradient computed in place in the bf16 logits (2), transformer_engine cross_entropy.
    slime_rl: the model returns fp32 logits (4) while bf16 (2) live, the vocabulary-parallel log-prob keeps a softmax
      (4), temperature != 1 one more fp32 copy (4), the entropy gradient one more (4), slime backends/megatron_utils.
    t1_rl: bf16 and one fp32 copy (6), the form of the T1 report.
    """
    if loss.kind == "cross_entropy":
        return LogitBytes(6, 6, 2)
    if loss.kind == "native_fused_cross_entropy":
        return LogitBytes(6, 8, 2)
    if loss.kind == "te_cross_entropy":
        return LogitBytes(2, 2, 2)
    if loss.kind == "t1_rl":
        return LogitBytes(6, 6, 2)
    extra = 4 if loss.temperature != 1.0 else 0
    entropy = 4 if loss.entropy_gradient else 0
    # Forward: 2 + 4 + 4. Backward: the softmax becomes the gradient; the fp32 logits live on only for the entropy.
    return LogitBytes(10 + extra, 8 + extra + 2 * entropy, 6)


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
    h = at.arch.hidden_size
    return 2.0 * h * (3 * at.sequence_tokens + 2 * at.tokens) if at.stage.has_head else 0.0
