"""Adam's state: distributed over dp x cp (dense) and edp (experts), precision-aware, or partly in host memory."""

from __future__ import annotations

from memory_model.layout import Layout
from memory_model.terms.weights import LocalCounts
from memory_model.workload import Optimizer

HOST_BYTES_PER_SHARD_PARAMETER = 16
"""Pinned fp32 parameter and gradient copies and both moments (megatron/core/optimizer/cpu_offloading)."""


def shard_parameters(counts: LocalCounts, layout: Layout, optimizer: Optimizer) -> float:
    """Parameters whose optimizer state this GPU owns.

    Expert shards: experts / (ep x etp x edp) = experts / (world / pp), so ep and etp cancel.
    """
    if not optimizer.distributed:
        return counts.dense + counts.experts
    dense, expert = layout.dense_shards // optimizer.instances, layout.edp // optimizer.instances
    return counts.dense / max(1, dense) + counts.experts / max(1, expert)


def optimizer_bytes(counts: LocalCounts, layout: Layout, optimizer: Optimizer) -> float:
    """GPU bytes: main parameter and two moments per owned parameter, less what is offloaded.

    With CPU offload and without the precision-aware optimizer the fp32 main-parameter shard is still created on the
    GPU: 4 + 12 (1 - x) bytes (megatron/core/optimizer/distrib_optimizer.py builds the shard before
    HybridDeviceOptimizer copies it). With it, or without offload, 12 (1 - x).
    """
    owned = shard_parameters(counts, layout, optimizer)
    state = optimizer.main_param_bytes + 2 * optimizer.moment_bytes
    kept = 1.0 - optimizer.offload_fraction
    stays = 0.0
    if optimizer.offload_fraction > 0 and not optimizer.precision_aware:
        stays = float(optimizer.main_param_bytes)
    return owned * (state * kept + stays)


def host_optimizer_bytes(counts: LocalCounts, layout: Layout, optimizer: Optimizer) -> float:
    """Host bytes of the offloaded share: 16 per owned parameter."""
    owned = shard_parameters(counts, layout, optimizer)
    return owned * optimizer.offload_fraction * HOST_BYTES_PER_SHARD_PARAMETER


def step_transient_bytes(counts: LocalCounts, layout: Layout, optimizer: Optimizer) -> float:
    """Live only during the optimizer step: an fp32 copy of the gradient shard when gradients are not fp32.

    The precision-aware optimizer reads bf16 gradients as they are.
    """
    if optimizer.grad_bytes == 4 or optimizer.precision_aware:
        return 0.0
    return 4.0 * shard_parameters(counts, layout, optimizer)
