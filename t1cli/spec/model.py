"""`model`: which network is trained, and where its weights come from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from t1cli.spec.block import Block
from t1cli.spec.megatron import MegatronModel

MAX_LAYERS, MAX_EXPERTS = 2000, 10_000
"""An order of magnitude above every published model; the plan looks at each layer by itself."""


class GatedDeltaNet(Block):
    """The linear-attention layers of a hybrid model (Qwen3-Next, Qwen3.5)."""

    full_attention_interval: PositiveInt
    """Layer i (from 0) is full attention when (i + 1) % interval == 0; all others are GatedDeltaNet."""
    num_key_heads: PositiveInt
    """Key (and query) heads of a GatedDeltaNet layer."""
    num_value_heads: PositiveInt
    """Value heads of a GatedDeltaNet layer."""
    key_head_dim: PositiveInt
    """Width of one key head."""
    value_head_dim: PositiveInt
    """Width of one value head."""
    conv_kernel_dim: PositiveInt
    """Kernel length of the short causal convolution."""


class MultiLatentAttention(Block):
    """Multi-head latent attention (DeepSeek-V2/V3, Kimi-K2)."""

    q_lora_rank: PositiveInt | None = None
    """Rank of the query compression; null when queries are projected directly."""
    kv_lora_rank: PositiveInt
    """Rank of the key/value compression."""
    qk_nope_head_dim: PositiveInt
    """Width of a query/key head without rotary embedding."""
    qk_rope_head_dim: PositiveInt
    """Width of a query/key head with rotary embedding."""
    v_head_dim: PositiveInt
    """Width of a value head."""


class Vision(Block):
    """A vision tower in the checkpoint: counted, but frozen or left out during RL."""

    params: PositiveInt
    """Parameters of the tower."""
    use: Literal["left_out", "frozen"] = "left_out"
    """`left_out`: not loaded by the trainer. `frozen`: loaded, no gradients or optimizer state."""


class Architecture(Block):
    """The shape of the network, in the words of a Hugging Face `config.json`."""

    hidden_size: PositiveInt
    """Width of the residual stream."""
    num_hidden_layers: PositiveInt = Field(le=MAX_LAYERS)
    """Transformer layers, without MTP layers."""
    num_attention_heads: PositiveInt
    """Query heads."""
    num_key_value_heads: PositiveInt
    """Key/value groups (GQA)."""
    head_dim: PositiveInt
    """Width of one attention head."""
    intermediate_size: NonNegativeInt = 0
    """Width of a dense feed-forward layer; 0 when every layer is MoE."""
    vocab_size: PositiveInt
    """Vocabulary before padding."""
    tie_word_embeddings: bool = False
    """Whether the output head shares the embedding's weights."""
    qkv_bias: bool = False
    """Bias on the query, key and value projections."""
    attn_out_bias: bool = False
    """Bias on the attention output projection."""
    qk_layernorm: bool = False
    """RMSNorm on each query and key head."""
    attn_output_gate: bool = False
    """Gated attention: the query projection is doubled."""
    post_norms: bool = False
    """Extra norms after attention and after the feed-forward (GLM-4-9B)."""
    attention_sinks: bool = False
    """One learned sink per query head (gpt-oss)."""
    num_experts: NonNegativeInt = Field(default=0, le=MAX_EXPERTS)
    """Routed experts per MoE layer; 0 for a dense model."""
    num_experts_per_tok: NonNegativeInt = 0
    """Experts chosen per token."""
    moe_intermediate_size: NonNegativeInt = 0
    """Width of one routed expert."""
    shared_expert_intermediate_size: NonNegativeInt = 0
    """Total width of the shared expert(s); 0 for none."""
    shared_expert_gate: bool = False
    """A sigmoid gate on the shared expert."""
    first_k_dense: NonNegativeInt = 0
    """How many leading layers are dense."""
    router_bias: bool = False
    """A correction bias per expert in the router (DeepSeek-V3, GLM-4.5, Kimi)."""
    router_linear_bias: bool = False
    """A bias on the router's linear layer (gpt-oss)."""
    expert_bias: bool = False
    """Biases inside the experts (gpt-oss)."""
    mtp_num_layers: NonNegativeInt = 0
    """Multi-token-prediction layers in the checkpoint."""
    gated_deltanet: GatedDeltaNet | None = None
    """Linear-attention layers of a hybrid, null otherwise."""
    mla: MultiLatentAttention | None = None
    """Multi-head latent attention, null otherwise."""
    vision: Vision | None = None
    """The vision tower, null for a text model."""


class Checkpoints(Block):
    """Where the first weights come from. Paths are as the cluster's nodes see them."""

    hf: str | None = None
    """Hugging Face directory: config, tokenizer and the weights that the inference engines load."""
    torch_dist: str | None = None
    """The same weights converted for Megatron (`t1 checkpoint convert`); slime's `--ref-load`."""
    warm_critic: str | None = None
    """A finished critic's directory to start the critic from; null starts it cold. The embedded engine also takes
    `shipped`: the critic that belongs to the shipped actor, cold under any other."""


class ModelSpec(Block):
    """Which network is trained, and where its weights come from."""

    name: str
    """The model's public name, for people."""
    family: str
    """Chat template family. `qwen3`, `qwen3_next`, `qwen3_5`, `glm4_moe`, `glm_moe_dsa` and `t1-tiny` have append-only
    templates; chats of any other are rendered as a whole before each reply."""
    architecture: Architecture
    """The shape of the network."""
    checkpoints: Checkpoints = Checkpoints()
    """Where the first weights come from."""
    megatron: MegatronModel = MegatronModel()
    """What Megatron must be told beyond the shape."""
    train_mtp: bool = False
    """Whether MTP layers are loaded and trained."""
    source: str = Field(default="", description="Where the architecture's numbers come from.")
