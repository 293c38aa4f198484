"""Allocated bytes that belong to no tensor of the model: placeholders, workspaces, communication buffers."""

from __future__ import annotations

from functools import lru_cache

from memory_model.architecture import Architecture, LayerKind
from memory_model.layout import Layout
from memory_model.terms.term import Situation
from memory_model.units import MIB

CUBLAS_WORKSPACE_BYTES = 64 * MIB
"""PyTorch's cuBLAS and cuBLASLt workspaces, 32 MiB each (Megatron golden values: 0.066 GiB between steps on A100)."""
GROUPED_STREAMS = 4
"""Transformer Engine runs grouped GEMMs on four streams, each with a workspace (pytorch/module/base.py)."""


def fixed_buffers(at: Situation) -> dict[str, float]:
    """Everything here that stays allocated from the first step on, by name."""
    terms = {
        "weight-gradient placeholders": weight_gradient_placeholder_bytes(at),
        "workspaces": workspace_bytes(at),
    }
    if at.workload.experts.dispatcher == "flex":
        terms["dispatcher buffers"] = dispatcher_buffer_bytes(at)
    if at.workload.kernels.cuda_graphs:
        terms["CUDA graph buffers"] = cuda_graph_bytes(at)
    return terms


def workspace_bytes(at: Situation) -> float:
    """GEMM workspaces that stay allocated for the life of the process."""
    if not at.workload.kernels.transformer_engine:
        return float(CUBLAS_WORKSPACE_BYTES)
    streams = 1 + (GROUPED_STREAMS if at.arch.is_moe and at.workload.experts.grouped_gemm else 0)
    return float(CUBLAS_WORKSPACE_BYTES + streams * at.device.engine_workspace_mib * MIB)


def weight_gradient_placeholder_bytes(at: Situation) -> float:
    """Transformer Engine from 2.3 caches one bf16 placeholder per distinct linear shape for fused accumulation.

    transformer_engine/pytorch/module/base.py get_dummy_wgrad; grouped linears from 2.10, one per shape.
    """
    if not at.workload.kernels.gradient_accumulation_fusion:
        return 0.0
    return _placeholder_bytes(at.arch, at.layout, tuple(kind for kind, _ in at.kind_counts))


@lru_cache(maxsize=65536)
def _placeholder_bytes(arch: Architecture, layout: Layout, kinds: tuple[LayerKind, ...]) -> float:
    shapes: set[tuple[float, float]] = set()
    for kind in kinds:
        shapes |= linear_shapes(arch, layout, kind)
    return sum(2.0 * rows * columns for rows, columns in shapes)


@lru_cache(maxsize=4096)
def linear_shapes(arch: Architecture, layout: Layout, kind: LayerKind) -> frozenset[tuple[float, float]]:
    """Local (output, input) shapes of the Transformer Engine linears in one layer."""
    h, tp = arch.hidden_size, layout.tp
    factor = 2 if arch.gated_mlp else 1
    shapes: set[tuple[float, float]] = set()
    if not kind.startswith("gdn"):
        shapes |= _attention_shapes(arch, tp)
    if kind.endswith("moe"):
        f = arch.moe_intermediate_size / layout.etp
        shapes |= {(factor * f, h), (h, f)}
        width = arch.shared_expert_intermediate_size / tp
    else:
        width = arch.intermediate_size / tp
    if width:
        shapes |= {(factor * width, h), (h, width)}
    return frozenset(shapes)


def _attention_shapes(arch: Architecture, tp: int) -> set[tuple[float, float]]:
    h, heads = arch.hidden_size, arch.num_attention_heads / tp
    mla = arch.mla
    if mla is None:
        q = heads * arch.head_dim * (2 if arch.attn_output_gate else 1)
        kv = 2 * arch.num_key_value_heads / tp * arch.head_dim
        return {(q + kv, h), (h, heads * arch.head_dim)}
    up = heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    shapes = {(mla.kv_lora_rank + mla.qk_rope_head_dim, h), (up, mla.kv_lora_rank), (h, heads * mla.v_head_dim)}
    if mla.q_lora_rank is None:
        return shapes | {(heads * mla.qk_head_dim, h)}
    return shapes | {(mla.q_lora_rank, h), (heads * mla.qk_head_dim, mla.q_lora_rank)}


def cuda_graph_bytes(at: Situation) -> float:
    """Static input and output of every captured layer and their gradients, when parts of layers are captured.

    megatron/core/transformer/cuda_graphs.py; the captured parts here are the router and its preprocessing.
    """
    if not at.workload.kernels.cuda_graphs:
        return 0.0
    return 4 * 2.0 * at.arch.hidden_size * at.sequence_tokens * len(at.stage.layers)


def dispatcher_buffer_bytes(at: Situation) -> float:
    """Persistent buffers of the flex dispatcher (DeepEP, HybridEP): every rank's tokens may arrive on one rank.

    One dispatch and one combine buffer of tokens x ep rows.
    """
    if not at.arch.is_moe or at.workload.experts.dispatcher != "flex":
        return 0.0
    return 2 * 2.0 * at.arch.hidden_size * at.sequence_tokens * at.layout.ep
