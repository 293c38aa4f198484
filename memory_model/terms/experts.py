"""Kept and transient bytes of a mixture-of-experts block: router, dispatch, grouped experts, shared expert."""

from __future__ import annotations

from memory_model.terms.attention import BF16, FP32
from memory_model.terms.term import Piece, Situation

_NORM = frozenset({"layernorm"})
_MOE = frozenset({"moe"})
_ACT = frozenset({"moe", "moe_act"})
_SHARED = frozenset({"moe", "shared_experts"})


def received_rows(at: Situation) -> float:
    """Token rows that the experts of one rank process: balanced T_s x k x etp, times imbalance or capacity.

    Source: megatron/core/transformer/moe/token_dispatcher.py (alltoall; ETP gathers over its group).
    """
    rows = at.sequence_tokens * at.arch.num_experts_per_tok * at.layout.etp
    experts = at.workload.experts
    if experts.capacity_factor is not None:
        return rows * experts.capacity_factor
    return rows * (at.coefficients.natural_imbalance if experts.imbalance is None else experts.imbalance)


def expert_pieces(at: Situation) -> list[Piece]:
    """What the block keeps for its backward pass."""
    arch, shared, rows = at.arch, at.sequence_tokens, received_rows(at)
    f = arch.moe_intermediate_size / at.layout.etp
    up = f * (2 if arch.gated_mlp else 1)
    pieces = [
        Piece("feed-forward input", BF16 * arch.hidden_size * shared),
        Piece("feed-forward norm", BF16 * arch.hidden_size * shared, _NORM),
        Piece("router", router_bytes(at), _MOE),
        Piece("expert input", at.linear_input_bytes * arch.hidden_size * rows, _MOE),
        Piece("expert up-projection", BF16 * up * rows, _MOE),
        Piece("expert activation", at.linear_input_bytes * f * rows, _ACT),
    ]
    if arch.shared_expert_intermediate_size:
        pieces += _shared_expert(at)
    return pieces


def router_bytes(at: Situation) -> float:
    """fp32 logits, scores and their top-k copies, the boolean routing map and the permutation's row map."""
    return at.sequence_tokens * at.arch.num_experts * (3 * FP32 + 1 + FP32)


def _shared_expert(at: Situation) -> list[Piece]:
    width = at.arch.shared_expert_intermediate_size / at.layout.tp
    up = width * (2 if at.arch.gated_mlp else 1)
    pieces = [
        Piece("shared expert up-projection", BF16 * up * at.tokens, _SHARED),
        Piece("shared expert activation", at.linear_input_bytes * width * at.tokens, _SHARED),
    ]
    if at.workload.experts.shared_expert_overlap and at.layout.sequence_shards > 1:
        pieces.append(Piece("shared expert input", BF16 * at.arch.hidden_size * at.tokens, _SHARED))
    if at.arch.shared_expert_gate:
        pieces.append(Piece("shared expert output", BF16 * at.arch.hidden_size * at.sequence_tokens, _SHARED))
    return pieces


def expert_forward_transient(at: Situation) -> float:
    """Permuted copy, all-to-all output and its sorted copy: two row buffers live at once beside the kept input."""
    rows, h = received_rows(at), at.arch.hidden_size
    sent = at.sequence_tokens * at.arch.num_experts_per_tok
    return BF16 * h * (rows + sent)


def expert_backward_transient(at: Situation) -> float:
    """Gradient rows of the combine, of the activation and of the up-projection at the activation's backward."""
    rows, h = received_rows(at), at.arch.hidden_size
    f = at.arch.moe_intermediate_size / at.layout.etp
    up = f * (2 if at.arch.gated_mlp else 1)
    return BF16 * rows * max(up, 2 * h) + BF16 * 2 * h * at.sequence_tokens
