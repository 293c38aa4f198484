"""Kept and transient bytes of a GatedDeltaNet block in Megatron's, slime's and the native context-parallel form."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model.architecture import GatedDeltaNet
from memory_model.terms.attention import BF16, FP32
from memory_model.terms.term import Piece, Situation

CHUNK = 64
"""Chunk length of the gated delta rule kernel (fla ops/gated_delta_rule/chunk.py)."""

_NORM = frozenset({"layernorm"})
_GDN = frozenset({"gdn"})
_NORM_OUT = frozenset({"gdn", "gdn_norm_out"})


@dataclass(frozen=True)
class Shard:
    """Tokens and share of the heads that one rank computes in a GatedDeltaNet layer."""

    tokens: float
    head_share: float


def shard(at: Situation) -> Shard:
    """Which part of the layer one rank computes.

    Megatron splits heads over TP and, by all-to-all, over CP, so every rank sees the full sequence. slime gathers the
    hidden states over SP and CP and computes everything everywhere (slime_plugins/models/hf_attention.py). The native
    form keeps the CP shard and passes recurrent states; heads stay whole on every TP rank.
    """
    cp, tp = at.layout.cp, at.layout.tp
    if at.workload.gdn_form == "megatron":
        return Shard(at.tokens * cp, 1 / (tp * cp))
    if at.workload.gdn_form == "native_cp":
        return Shard(float(at.tokens), 1.0)
    return Shard(float(at.tokens * cp), 1.0)


def deltanet_pieces(at: Situation) -> list[Piece]:
    """What the block keeps, read off fla-core's chunk kernel and Megatron's module around it."""
    gdn = _gdn(at)
    part = shard(at)
    rows = part.tokens * part.head_share
    n, conv = gdn.value_width, 2 * gdn.key_width + gdn.value_width
    # q and k are repeated to the value heads before the kernel, so q, k and v are n wide each.
    repeated = gdn.num_value_heads * gdn.key_head_dim
    per_row = {
        "deltanet projection": BF16 * (conv + n),
        "deltanet convolution": BF16 * conv,
        "deltanet query, key, value": BF16 * (2 * repeated + n),
        "deltanet normalised keys": BF16 * 2 * gdn.key_width,
        "deltanet decay and chunk matrix": gdn.num_value_heads * (FP32 + BF16 + CHUNK * BF16),
        "deltanet output and gate": BF16 * 2 * n,
    }
    h = at.arch.hidden_size
    pieces = [
        Piece("attention input", BF16 * h * at.sequence_tokens),
        Piece("attention norm", BF16 * h * at.sequence_tokens, _NORM),
        *(Piece(name, size * rows, _GDN) for name, size in per_row.items()),
        Piece("deltanet gated norm", BF16 * n * rows, _NORM_OUT),
    ]
    if at.workload.gdn_form != "megatron":
        pieces.append(Piece("gathered hidden states", BF16 * h * part.tokens, _GDN))
    return pieces


def deltanet_forward_transient(at: Situation) -> float:
    """w, u and new values (n wide each) and the chunk states (K x V fp32-free, 4 n for K = 128)."""
    gdn, part = _gdn(at), shard(at)
    n = gdn.value_width
    states = BF16 * gdn.num_value_heads * gdn.key_head_dim * gdn.value_head_dim / CHUNK
    return (3 * BF16 * n + states) * part.tokens * part.head_share


def deltanet_backward_transient(at: Situation) -> float:
    """The forward's transients again, state gradients, and gradients of q, k, v, w and the decay: about 24 n bytes."""
    gdn, part = _gdn(at), shard(at)
    n = gdn.value_width
    states = BF16 * gdn.num_value_heads * gdn.key_head_dim * gdn.value_head_dim / CHUNK
    gradients = BF16 * 5 * n + FP32 * gdn.num_value_heads
    return (3 * BF16 * n + 2 * states + gradients) * part.tokens * part.head_share


def _gdn(at: Situation) -> GatedDeltaNet:
    gdn = at.arch.gated_deltanet
    assert gdn is not None
    return gdn
