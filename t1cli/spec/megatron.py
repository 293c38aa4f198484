"""`model.megatron`: what Megatron must be told about a network beyond its shape."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class MegatronModel(Block):
    """What Megatron must be told about a network beyond its shape; the defaults are those of most current models."""

    spec: tuple[str, ...] = ()
    """Module and function of a layer specification, for models that Megatron does not know (`--spec`)."""
    normalization: Literal["RMSNorm", "LayerNorm"] = "RMSNorm"
    """Kind of norm."""
    norm_epsilon: PositiveFloat = 1e-6
    """Epsilon of the norms."""
    zero_centered_norm: bool = False
    """Norm weights are stored around zero (`--apply-layernorm-1p`)."""
    swiglu: bool = True
    """Gated feed-forward layers."""
    position_embedding: Literal["rope", "rotary", "none"] = "rope"
    """`rotary` is the older spelling of rope (`--use-rotary-position-embeddings`)."""
    rotary_base: PositiveInt = 1_000_000
    """Base of the rotary embedding."""
    rotary_percent: float | None = Field(default=None, gt=0.0, le=1.0)
    """Rotated share of a head; null leaves Megatron's 1.0."""
    rope_fusion: bool = True
    """Fused kernel of the rotary embedding."""
    rotary_scaling_factor: PositiveFloat | None = None
    """YaRN factor of multi-head latent attention."""
    mscale: PositiveFloat | None = None
    """YaRN's mscale."""
    mscale_all_dim: NonNegativeFloat | None = None
    """YaRN's mscale over all dimensions."""
    vocab_divisor: PositiveInt | None = None
    """The vocabulary is padded to a multiple of this times the tensor-parallel size; null leaves Megatron's 128."""
    router_score: Literal["softmax", "sigmoid"] = "softmax"
    """Score function of the router."""
    router_pre_softmax: bool = False
    """Scores before the top-k choice."""
    router_scaling: PositiveFloat | None = None
    """Factor on the chosen scores."""
    router_groups: PositiveInt | None = None
    """Groups of experts that are limited to `router_group_topk`."""
    router_group_topk: PositiveInt | None = None
    """Groups chosen per token."""
    router_balancing: str | None = None
    """Load-balancing kind, for example `seq_aux_loss`; null leaves Megatron's."""
    router_bias_update_rate: NonNegativeFloat | None = None
    """Update rate of the router's correction bias; 0 freezes it."""
    router_dtype: Literal["fp32", "fp64"] | None = "fp32"
    """Number format of the router; null runs it in the model's."""
    token_drop_policy: str | None = None
    """What a full expert drops, `probs` or `position`; null leaves Megatron's."""
    grouped_gemm: bool = True
    """One kernel for all experts of a rank."""
    permute_fusion: bool = True
    """Fused kernels that sort tokens by expert."""
