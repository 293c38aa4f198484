"""The shape of a network, in the words of a Hugging Face `config.json`, as Megatron builds it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from memory_model.cached_hash import CachedHash

LayerKind = Literal["dense", "moe", "gdn_dense", "gdn_moe"]


@dataclass(frozen=True)
class GatedDeltaNet:
    """The linear-attention layers of a hybrid model (Qwen3-Next, Qwen3.5)."""

    full_attention_interval: int
    """Layer i (from 0) is full attention when (i + 1) % interval == 0; all others are GatedDeltaNet."""
    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel_dim: int

    @property
    def key_width(self) -> int:
        """Width of all keys (and of all queries)."""
        return self.num_key_heads * self.key_head_dim

    @property
    def value_width(self) -> int:
        """Width of all values (and of the output gate z)."""
        return self.num_value_heads * self.value_head_dim


@dataclass(frozen=True)
class MultiLatentAttention:
    """Multi-head latent attention (DeepSeek-V2/V3, Kimi-K2)."""

    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None

    @property
    def qk_head_dim(self) -> int:
        """Width of one query/key head with its rotary part."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim


@dataclass(frozen=True)
class Vision:
    """A vision tower in the checkpoint."""

    params: int
    use: Literal["left_out", "frozen"] = "left_out"
    """`left_out`: not loaded by the trainer. `frozen`: loaded, no gradients or optimizer state."""


@dataclass(frozen=True)
class Architecture(CachedHash):
    """The shape of the network; parameter counts are in `memory_model.parameters`."""

    __hash__ = CachedHash.__hash__

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    intermediate_size: int = 0
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    attn_out_bias: bool = False
    qk_layernorm: bool = False
    attn_output_gate: bool = False
    post_norms: bool = False
    attention_sinks: bool = False
    num_experts: int = 0
    num_experts_per_tok: int = 0
    moe_intermediate_size: int = 0
    shared_expert_intermediate_size: int = 0
    shared_expert_gate: bool = False
    first_k_dense: int = 0
    router_bias: bool = False
    router_linear_bias: bool = False
    expert_bias: bool = False
    mtp_num_layers: int = 0
    gated_deltanet: GatedDeltaNet | None = None
    mla: MultiLatentAttention | None = None
    vision: Vision | None = None
    gated_mlp: bool = True
    """SwiGLU and its kin; False for GELU or squared ReLU with one up-projection."""
    mlp_bias: bool = False
    """Biases in the dense feed-forward (old GPT models)."""
    norm_bias: bool = False
    """LayerNorm with a bias instead of RMSNorm."""
    learned_positions: int = 0
    """Rows of a learned position embedding; 0 for rotary."""

    @property
    def is_moe(self) -> bool:
        """Whether any layer has routed experts."""
        return self.num_experts > 0

    def has_full_attention(self, layer: int) -> bool:
        """Whether layer `layer` (from 0) is full attention rather than GatedDeltaNet."""
        gdn = self.gated_deltanet
        return gdn is None or (layer + 1) % gdn.full_attention_interval == 0


@lru_cache(maxsize=256)
def layer_kinds(arch: Architecture) -> tuple[LayerKind, ...]:
    """The kind of every transformer layer, first to last, without MTP layers."""
    return tuple(_kind(arch, layer) for layer in range(arch.num_hidden_layers))


def _kind(arch: Architecture, layer: int) -> LayerKind:
    moe = arch.is_moe and layer >= arch.first_k_dense
    if arch.has_full_attention(layer):
        return "moe" if moe else "dense"
    return "gdn_moe" if moe else "gdn_dense"
