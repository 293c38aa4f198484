"""What lies outside live tensors: CUDA context, NCCL, the memory saver, the other roles' processes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from memory_model.coefficients import Coefficients
from memory_model.layout import Layout
from memory_model.units import GIB
from memory_model.workload import Workload


def communicators(layout: Layout, *, moe: bool) -> int:
    """NCCL communicators that a trainer rank really uses: the world, and every axis longer than one."""
    axes = [layout.tp, layout.pp, layout.cp, layout.dp]
    if moe:
        axes += [layout.ep, layout.etp, layout.edp]
    return sum(size > 1 for size in (layout.world, *axes))


def allocator_reserve(allocated: float, coefficients: Coefficients) -> float:
    """Cached blocks that hold no live tensor."""
    return allocated * (coefficients.reserved_over_allocated - 1)


@lru_cache(maxsize=65536)
def outside_terms(layout: Layout, workload: Workload, coefficients: Coefficients, *, moe: bool) -> Mapping[str, float]:
    """Bytes on the device that PyTorch's allocator does not count, by name."""
    c = coefficients
    terms = {
        "CUDA context and libraries": (c.cuda_context_gib + c.library_handles_gib) * GIB,
        "NCCL communicators": communicators(layout, moe=moe) * c.communicator_gib * GIB,
    }
    if workload.train_offload:
        terms["memory saver margin"] = c.memory_saver_margin_gib * GIB
        others = len(workload.roles) - 1 + (1 if workload.colocated_rollout else 0)
        if others > 0:
            terms["other role's process"] = others * c.other_role_residual_gib * GIB
    if c.fixed_extra_gib:
        terms["calibrated constant"] = c.fixed_extra_gib * GIB
    return {name: size for name, size in terms.items() if size}
