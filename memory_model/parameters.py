"""Exact parameter counts by bucket: per module, per layer, for the model and for a pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from memory_model.architecture import Architecture, GatedDeltaNet, LayerKind, MultiLatentAttention, layer_kinds


@dataclass(frozen=True)
class Parameters:
    """Counts by how Megatron places them: split over TP, copied to every TP rank, split over EP and ETP."""

    sharded: int = 0
    """Linear weights split over TP."""
    replicated: int = 0
    """Norms, routers, gates and low-rank down-projections that every TP rank holds whole."""
    experts: int = 0
    """Routed experts, split over EP x ETP."""
    gdn: int = 0
    """GatedDeltaNet: split over TP in Megatron's form, copied to every TP rank in slime's."""
    embedding: int = 0
    """Word (and learned position) embedding, unpadded."""
    head: int = 0
    """Untied output head, unpadded."""

    def __add__(self, other: Parameters) -> Parameters:
        return Parameters(
            self.sharded + other.sharded,
            self.replicated + other.replicated,
            self.experts + other.experts,
            self.gdn + other.gdn,
            self.embedding + other.embedding,
            self.head + other.head,
        )

    def __mul__(self, factor: int) -> Parameters:
        return Parameters(
            self.sharded * factor,
            self.replicated * factor,
            self.experts * factor,
            self.gdn * factor,
            self.embedding * factor,
            self.head * factor,
        )

    @property
    def total(self) -> int:
        """All parameters."""
        return self.sharded + self.replicated + self.experts + self.gdn + self.embedding + self.head


NONE = Parameters()


@lru_cache(maxsize=256)
def text_parameters(arch: Architecture) -> Parameters:
    """The whole text model without MTP layers and without a vision tower; equals the published totals."""
    total = NONE
    for kind in layer_kinds(arch):
        total = total + layer_parameters(arch, kind)
    return total + embedding_parameters(arch) + head_parameters(arch) + Parameters(replicated=_norm(arch))


@lru_cache(maxsize=1024)
def layer_parameters(arch: Architecture, kind: LayerKind) -> Parameters:
    """One transformer layer of the given kind, with its norms."""
    attention = _gdn(arch) if kind.startswith("gdn") else _attention(arch)
    ffn = _moe(arch) if kind.endswith("moe") else _dense_mlp(arch)
    norms = _norm(arch) * (4 if arch.post_norms else 2)
    return attention + ffn + Parameters(replicated=norms)


@lru_cache(maxsize=256)
def mtp_parameters(arch: Architecture) -> Parameters:
    """All MTP layers without their copies of embedding and head: eh_proj 2h x h, three norms, one layer each."""
    h = arch.hidden_size
    kind: LayerKind = "moe" if arch.is_moe else "dense"
    one = layer_parameters(arch, kind) + Parameters(sharded=2 * h * h, replicated=3 * _norm(arch))
    return one * arch.mtp_num_layers


def embedding_parameters(arch: Architecture) -> Parameters:
    """Word embedding, with learned positions where the model has them."""
    return Parameters(
        embedding=arch.vocab_size * arch.hidden_size, replicated=arch.learned_positions * arch.hidden_size
    )


def head_parameters(arch: Architecture) -> Parameters:
    """The output head; nothing when it is tied to the embedding."""
    return Parameters(head=0 if arch.tie_word_embeddings else arch.vocab_size * arch.hidden_size)


def _norm(arch: Architecture) -> int:
    return arch.hidden_size * (2 if arch.norm_bias else 1)


def _attention(arch: Architecture) -> Parameters:
    return _latent_attention(arch, arch.mla) if arch.mla else _grouped_attention(arch)


def _grouped_attention(arch: Architecture) -> Parameters:
    h, d = arch.hidden_size, arch.head_dim
    q = arch.num_attention_heads * d * (2 if arch.attn_output_gate else 1)
    kv = 2 * arch.num_key_value_heads * d
    out = arch.num_attention_heads * d * h
    sharded = h * (q + kv) + out + (q + kv if arch.qkv_bias else 0)
    sharded += arch.num_attention_heads if arch.attention_sinks else 0
    replicated = (2 * d if arch.qk_layernorm else 0) + (h if arch.attn_out_bias else 0)
    return Parameters(sharded=sharded, replicated=replicated)


def _latent_attention(arch: Architecture, mla: MultiLatentAttention) -> Parameters:
    # Down-projections are duplicated on every TP rank (megatron/core/transformer/multi_latent_attention.py).
    h, heads = arch.hidden_size, arch.num_attention_heads
    kv_down = h * (mla.kv_lora_rank + mla.qk_rope_head_dim) + mla.kv_lora_rank
    kv_up = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    out = heads * mla.v_head_dim * h
    if mla.q_lora_rank is None:
        return Parameters(sharded=h * heads * mla.qk_head_dim + kv_up + out, replicated=kv_down)
    q_down = h * mla.q_lora_rank + mla.q_lora_rank
    q_up = mla.q_lora_rank * heads * mla.qk_head_dim
    return Parameters(sharded=q_up + kv_up + out, replicated=kv_down + q_down)


def _gdn(arch: Architecture) -> Parameters:
    gdn = arch.gated_deltanet
    assert gdn is not None
    return Parameters(gdn=gdn_layer_parameters(arch.hidden_size, gdn))


def gdn_layer_parameters(hidden_size: int, gdn: GatedDeltaNet) -> int:
    """Weights of one GatedDeltaNet layer: in_proj (q, k, v, z, b, a), conv, A_log, dt_bias, gated norm, out_proj."""
    k, v, heads = gdn.key_width, gdn.value_width, gdn.num_value_heads
    in_proj = hidden_size * (2 * k + 2 * v + 2 * heads)
    conv = (2 * k + v) * gdn.conv_kernel_dim
    return in_proj + conv + 2 * heads + gdn.value_head_dim + v * hidden_size


def _dense_mlp(arch: Architecture) -> Parameters:
    h, f = arch.hidden_size, arch.intermediate_size
    matrices = 3 if arch.gated_mlp else 2
    up_bias = f * (matrices - 1) if arch.mlp_bias else 0
    return Parameters(sharded=matrices * h * f + up_bias, replicated=h if arch.mlp_bias else 0)


def _moe(arch: Architecture) -> Parameters:
    h, f, e = arch.hidden_size, arch.moe_intermediate_size, arch.num_experts
    matrices = 3 if arch.gated_mlp else 2
    bias = (f * (matrices - 1) + h) if arch.expert_bias else 0
    router = h * e + (e if arch.router_bias else 0) + (e if arch.router_linear_bias else 0)
    shared = matrices * h * arch.shared_expert_intermediate_size
    gate = h if arch.shared_expert_gate else 0
    return Parameters(sharded=shared, replicated=router + gate, experts=e * (matrices * h * f + bias))
