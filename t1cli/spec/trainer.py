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
    """GatedDeltaNet under CP: `none` gathers the full sequence on every rank (slime as it is), `native` splits it."""
    logits_bytes_form: Literal["slime", "t1_report"] = "slime"
    """Which loss implementation the plan prices: slime's log-prob loss or the T1 report's 6-byte form."""
    nccl_timeout_minutes: PositiveInt = 30
    """Time limit of rebuilt NCCL groups; 120 is sensible with cp above 1."""
    gloo_timeout_minutes: PositiveInt = 60
    """Time limit of the Gloo control group."""
    moe_dispatcher: Literal["alltoall", "allgather", "flex"] = "alltoall"
    """Megatron's MoE token dispatcher."""
    moe_imbalance: PositiveFloat | None = None
    """Tokens on the busiest expert rank over the mean, for the plan. Null: natural routing as measured; 1: balanced."""
    cpu_threads: NonNegativeInt = 0
    """Embedded engine: torch threads of the trainer; 0 chooses from the machine."""
