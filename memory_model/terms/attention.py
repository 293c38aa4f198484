"""Kept and transient bytes of softmax attention: grouped-query (gated or not) and multi-head latent."""

from __future__ import annotations

from memory_model.architecture import Architecture, MultiLatentAttention
from memory_model.terms.term import Piece, Situation

BF16 = 2
FP32 = 4
_NORM = frozenset({"layernorm"})
_CORE = frozenset({"core_attn"})
_UP = frozenset({"mla_up_proj"})


def attention_pieces(at: Situation) -> list[Piece]:
    """Everything a full-attention block keeps: input, normalised input, q/k/v, output, log-sum-exp."""
    h, shared = at.arch.hidden_size, at.sequence_tokens
    # TE's fused norm-linear saves its input and the normalised output (transformer_engine layernorm_linear).
    pieces = [
        Piece("attention input", BF16 * h * shared),
        Piece("attention norm", at.linear_input_bytes * h * shared, _NORM),
    ]
    pieces += _latent(at, at.arch.mla) if at.arch.mla else _grouped(at)
    return pieces


def local_kv_heads(arch: Architecture, tp: int) -> int:
    """Key/value heads on a rank; above the number of groups every rank keeps one whole group."""
    return max(1, arch.num_key_value_heads // tp)


def recomputes_core(at: Situation) -> bool:
    """Whether the core attention alone is checkpointed."""
    recompute = at.workload.recompute
    return recompute.kind == "selective" and "core_attn" in recompute.modules


def _grouped(at: Situation) -> list[Piece]:
    arch, tp, tokens = at.arch, at.layout.tp, at.tokens
    heads = arch.num_attention_heads / tp
    q = BF16 * heads * arch.head_dim * tokens
    kv = BF16 * 2 * local_kv_heads(arch, tp) * arch.head_dim * tokens
    pieces = [Piece("query, key, value", q + kv)]
    if recomputes_core(at):
        # The checkpoint keeps the value as the projection's view, not the contiguous copy that the kernel makes:
        # Qwen3-30B-A3B grew by 1.67 GiB under core_attn recomputation (Megatron-Bridge #3880), 1.69 by this formula.
        gate = q if arch.attn_output_gate else 0.0
        pieces.append(Piece("projection held by the value", q + kv / 2 + gate))
    if arch.qk_layernorm:
        # q and k before their norm stay alive next to the normalised, rotated ones.
        pieces.append(Piece("query and key before norm", q + kv / 2))
    if arch.attn_output_gate:
        # sigmoid(gate) x output keeps the gate, its sigmoid and the ungated output.
        pieces.append(Piece("output gate", 2 * q))
    return pieces + _core(at, heads, arch.head_dim)


def _core(at: Situation, heads: float, value_dim: int) -> list[Piece]:
    """Flash attention keeps its output and the fp32 log-sum-exp; unfused attention keeps the scores."""
    out = BF16 * heads * value_dim * at.tokens
    pieces = [Piece("attention output", out), Piece("log-sum-exp", FP32 * heads * at.tokens, _CORE)]
    if at.workload.kernels.fp8:
        pieces.append(Piece("projection input in fp8", out / BF16))
    if at.layout.cp > 1:
        # TE from 2.8: attention saves its output before the all-to-all back, besides the projection's input.
        pieces.append(Piece("attention output before CP exchange", out, _CORE))
    if at.workload.kernels.flash_attention:
        return pieces
    length = at.workload.sequence_tokens / at.layout.cp if at.workload.sequence_tokens else at.tokens
    scores = heads * at.tokens * length
    per_score = BF16 + (1 + BF16 if at.workload.kernels.dropout else 0)
    return [*pieces, Piece("attention scores", per_score * scores, _CORE)]


def _latent(at: Situation, mla: MultiLatentAttention) -> list[Piece]:
    # megatron/core/transformer/multi_latent_attention.py: low-rank streams stay on the sequence shard,
    # up-projections and everything after them are split by head.
    shared, heads = at.sequence_tokens, at.arch.num_attention_heads / at.layout.tp
    q_rank = mla.q_lora_rank or 0
    low = BF16 * shared * (q_rank + mla.kv_lora_rank + mla.qk_rope_head_dim)
    normed = BF16 * shared * (q_rank + mla.kv_lora_rank)
    # The value is a view into the key/value up-projection, which therefore stays whole beside the rotated key.
    up = mla.qk_nope_head_dim + mla.v_head_dim
    qkv = BF16 * at.tokens * heads * (2 * mla.qk_head_dim + up)
    pieces = [
        Piece("low-rank query and key/value", low),
        Piece("low-rank norms", normed, _UP),
        Piece("query, key, value", qkv, _UP),
    ]
    return pieces + _core(at, heads, mla.v_head_dim)


def attention_backward_transient(at: Situation) -> float:
    """Gradients of q, k, v and of the output, and the gathered input of the projection."""
    arch, heads = at.arch, at.arch.num_attention_heads / at.layout.tp
    if arch.mla:
        width = heads * (2 * arch.mla.qk_head_dim + 2 * arch.mla.v_head_dim)
    else:
        width = 2 * heads * arch.head_dim + 2 * local_kv_heads(arch, at.layout.tp) * arch.head_dim
    return BF16 * at.tokens * (width + 2 * arch.hidden_size)
