"""`trainer`: numerics, recomputation, offload and time limits of a training step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class NoRecompute(Block):
    """Every activation is kept."""

    kind: Literal["none"] = "none"
    """No recomputation."""


class SelectiveRecompute(Block):
    """Named modules are recomputed in the backward pass."""

    kind: Literal["selective"] = "selective"
    """Recompute the named modules."""
    modules: tuple[str, ...] = ("core_attn",)
    """Megatron's `--recompute-modules`: core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, shared_experts."""


class FullRecompute(Block):
    """Whole layers are recomputed in the backward pass."""

    kind: Literal["full"] = "full"
    """Recompute whole layers."""
    method: Literal["uniform", "block"] = "uniform"
    """`uniform`: keep the input of every n-th layer. `block`: checkpoint the first n layers of a stage."""
    num_layers: PositiveInt = 1
    """The n of the method."""


Recompute = Annotated[NoRecompute | SelectiveRecompute | FullRecompute, Field(discriminator="kind")]


class TrainerSpec(Block):
    """Numerics, recomputation, offload and time limits of a training step."""

    precision: Literal["bf16", "fp32"] = "bf16"
    """Weights and activations; gradients accumulate in fp32 either way."""
    recompute: Recompute = NoRecompute()
    """What the backward pass computes again instead of keeping."""
    max_tokens_per_gpu: PositiveInt
    """Dynamic packing: tokens per micro-batch on one context-parallel rank. A longer sample stands alone."""
    optimizer_cpu_offload: bool = False
    """Keep Adam's state in host memory."""
    optimizer_offload_fraction: float = Field(default=1.0, ge=0.0, le=1.0)
    """The share of the optimizer state that is offloaded when offload is on."""
    precision_aware_optimizer: bool = False
    """Megatron's precision-aware optimizer; with CPU offload it drops the GPU's fp32 main parameters."""
    offload_train: bool = True
    """Put the trainer's memory to host between steps. slime forces it for PPO."""
    expandable_segments: bool = False
    """PyTorch's expandable segments; incompatible with the memory saver that offload needs."""
    gdn_context_parallel: Literal["none", "native"] = "none"
    """GatedDeltaNet under CP: `none` gathers the full sequence on every rank (slime as it is), `native` splits it by
    t1's own layers."""
    logits_bytes_form: Literal["slime", "t1_report"] = "slime"
    """Which loss implementation the plan prices: slime's log-prob loss or the T1 report's 6-byte form."""
    nccl_timeout_minutes: PositiveInt = 30
    """Time limit of rebuilt NCCL groups; 120 is sensible with cp above 1."""
    gloo_timeout_minutes: PositiveInt = 60
    """Time limit of the Gloo control group."""
    overlap_optimizer_offload: bool = False
    """Overlap the optimizer's copies between host and GPU."""
    attention_backend: str | None = "flash"
    """Attention kernels of Transformer Engine; null leaves the choice to it."""
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout of attention weights."""
    hidden_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout of the residual stream."""
    fp32_gradients: bool = True
    """Accumulate and reduce gradients in fp32."""
    fp32_attention_softmax: bool = True
    """Softmax of attention in fp32."""
    dynamic_batch: bool = True
    """Pack micro-batches to `max_tokens_per_gpu`; otherwise each holds `micro_batch_size` samples."""
    micro_batch_size: PositiveInt | None = None
    """Samples of a micro-batch without packing; null means 1."""
    qkv_format: Literal["thd", "bshd"] = "thd"
    """`thd` packs samples, `bshd` pads them and excludes `dynamic_batch`."""
    balance_data: bool = False
    """Spread samples over data-parallel ranks by their lengths."""
    log_probs_chunk_size: PositiveInt | None = None
    """Tokens whose log-probs are computed at once; null means all."""
    weight_push_buffer_bytes: PositiveInt | None = None
    """Buffer of a weight push; null leaves slime's 512 MiB."""
    bridge: bool = False
    """Read and push weights through Megatron-Bridge instead of slime's own converters."""
    deepep: bool = False
    """DeepEP kernels of the `flex` dispatcher."""
    moe_dispatcher: Literal["alltoall", "allgather", "flex"] = "alltoall"
    """Megatron's MoE token dispatcher."""
    moe_imbalance: PositiveFloat | None = None
    """Tokens on the busiest expert rank over the mean, for the plan. Null: natural routing as measured; 1: balanced."""
    memory_overlay: str | None = None
    """Memory coefficients that `t1 calibrate` fitted to readings, for the plan: a path to a .json file, from the
    experiment file's directory, or the bare name of a shipped one (`t1-report`). Null: uncalibrated figures."""
    cpu_threads: NonNegativeInt = 0
    """Embedded engine: torch threads of the trainer; 0 chooses from the machine."""
