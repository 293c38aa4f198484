"""What one training step does with the model: tokens, recomputation, optimizer, loss, experts, kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memory_model.cached_hash import CachedHash

LossKind = Literal["cross_entropy", "native_fused_cross_entropy", "te_cross_entropy", "slime_rl", "t1_rl"]
GdnForm = Literal["megatron", "slime", "native_cp"]
Dispatcher = Literal["alltoall", "allgather", "flex"]


@dataclass(frozen=True)
class Recompute:
    """What the backward pass computes again instead of keeping."""

    kind: Literal["none", "selective", "uniform", "block"] = "none"
    modules: frozenset[str] = frozenset()
    """For `selective`: core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, shared_experts, gdn, gdn_norm_out."""
    num_layers: int = 1
    """`uniform`: layers per checkpoint. `block`: checkpointed layers at the front of every (virtual) stage."""


@dataclass(frozen=True)
class Optimizer:
    """Adam under Megatron: where its state lives and in what width."""

    distributed: bool = True
    instances: int = 1
    """`--num-distributed-optimizer-instances`: each shards its own copy of the state."""
    precision_aware: bool = False
    offload_fraction: float = 0.0
    """Share of the state in host memory (HybridDeviceOptimizer)."""
    grad_bytes: int = 4
    main_param_bytes: int = 4
    moment_bytes: int = 4
    """Bytes of each of the two moments; 2 only with the precision-aware optimizer."""


@dataclass(frozen=True)
class Loss:
    """Which code turns logits into a loss; `memory_model.terms.logits` has the bytes of each."""

    kind: LossKind = "slime_rl"
    temperature: float = 1.0
    """slime's `rollout_temperature`; anything but 1 keeps one more fp32 copy of the logits."""
    entropy_gradient: bool = False
    """Whether the entropy coefficient is not 0."""

    @property
    def is_rl(self) -> bool:
        """Whether a step has RL's other phases (weights are pushed to inference engines)."""
        return self.kind in ("slime_rl", "t1_rl")


@dataclass(frozen=True)
class Experts:
    """How tokens reach routed experts."""

    dispatcher: Dispatcher = "alltoall"
    imbalance: float | None = None
    """Rows received by the busiest rank over the mean: 1.0 for forced balance, None for natural routing."""
    grouped_gemm: bool = True
    """`--moe-grouped-gemm`; its streams keep a workspace each."""
    shared_expert_overlap: bool = False
    """`--moe-shared-expert-overlap`: the shared expert gathers its input itself and keeps it whole."""
    capacity_factor: float | None = None
    """`moe_expert_capacity_factor` with padding to capacity: received rows are exactly this times the mean."""


@dataclass(frozen=True)
class Kernels:
    """Details of the software stack that change what is kept."""

    dropout: bool = False
    """Hidden and attention dropout: 1-byte masks and kept outputs."""
    flash_attention: bool = True
    """False stores attention scores (unfused attention)."""
    fp8: bool = False
    """fp8 linears: their inputs are kept in one byte, their weights quantised and transposed (two bytes more)."""
    fp8_param_gather: bool = False
    """The fp8 weights replace the bf16 ones."""
    gradient_accumulation_fusion: bool = True
    """Weight gradients are added to the main gradient inside the GEMM."""
    transformer_engine: bool = True
    """False: Megatron's own (`local`) layers with PyTorch softmax attention."""
    fp16: bool = False
    tp_comm_overlap: bool = False
    cuda_graphs: bool = False


@dataclass(frozen=True)
class Workload(CachedHash):
    """One training step of one role. Give either `max_tokens_per_gpu` with `longest_sample_tokens`, or the sequence."""

    __hash__ = CachedHash.__hash__

    max_tokens_per_gpu: int = 0
    """slime's cap per context-parallel rank under dynamic packing; 0 when `sequence_tokens` is given."""
    longest_sample_tokens: int = 0
    """Prompt and response of the longest sample; it cannot be split over micro-batches."""
    sequence_tokens: int = 0
    """Fixed sequence length (pre-training, SFT): tokens of one sequence over all context-parallel ranks."""
    sequences_per_micro_batch: int = 1
    micro_batches: int = 8
    """Micro-batches of one optimizer step on one data-parallel rank; bounds what a pipeline keeps in flight."""
    recompute: Recompute = Recompute()
    optimizer: Optimizer = Optimizer()
    loss: Loss = Loss()
    experts: Experts = Experts()
    kernels: Kernels = Kernels()
    gdn_form: GdnForm = "slime"
    """`megatron`: heads split over TP and CP. `slime`: whole layer and whole sequence on every rank.
    `native_cp`: slime's layer with the sequence split over CP and recurrent states passed on."""
    train_mtp: bool = False
    train_offload: bool = True
    """slime's offload of the idle role by torch_memory_saver."""
    roles: tuple[str, ...] = ("actor",)
    """Roles that live on these GPUs in turn, for the other role's residual."""
    colocated_rollout: bool = False
    sglang_mem_fraction: float = 0.8
    lora_rank: int = 0
    """Above 0: base weights frozen, only adapters have gradients and optimizer state."""

    def tokens_per_rank(self, cp: int) -> int:
        """Tokens of the largest micro-batch on one CP rank: max(cap, longest sample / cp), or sequence x batch / cp.

        slime packs samples up to max_tokens_per_gpu x cp and never splits one, so a longer sample stands alone.
        """
        if self.sequence_tokens:
            return -(-self.sequence_tokens * self.sequences_per_micro_batch // cp)
        return max(self.max_tokens_per_gpu, -(-self.longest_sample_tokens // cp))
