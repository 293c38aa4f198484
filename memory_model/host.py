"""Host RAM of one node: CPU Adam, pinned copies, memory-saver backups, snapshots, routing rows, processes."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model.architecture import Architecture
from memory_model.layout import Layout, stages
from memory_model.terms.gradients import gradient_bytes
from memory_model.terms.optimizer import host_optimizer_bytes, optimizer_bytes, shard_parameters
from memory_model.terms.weights import LocalCounts, local_counts, weight_bytes
from memory_model.units import GIB
from memory_model.workload import Workload

PROCESS_GIB = 5.0
"""One trainer process: Python, torch, CUDA's host side and pinned staging (rest of the 102.4 GB in slime #1851)."""
ENGINE_GIB = 6.0
"""One SGLang engine process on the host."""


@dataclass(frozen=True)
class HostDemand:
    """What besides the trainers lives on a node."""

    snapshots: int = 0
    """Copies of the actor's bf16 weights kept in host memory (keep-old-actor, reference)."""
    batch_tokens: int = 0
    """Tokens of a batch whose routing rows are held on this node."""
    routing_bytes_per_expert: int = 2
    sandboxes: int = 0
    sandbox_gib: float = 1.0
    engines: int = 0
    object_store_gib: float = 0.0


def host_terms(
    arch: Architecture, layout: Layout, workload: Workload, demand: HostDemand, *, gpus_per_node: int
) -> dict[str, float]:
    """GiB on one node by term, every GPU of it on the heaviest pipeline stage."""
    counts = heaviest_counts(arch, layout, workload)
    trainers = min(gpus_per_node, layout.world)
    roles = len(workload.roles)
    per_gpu = trainer_terms(counts, layout, workload)
    terms = {name: size * trainers * roles / GIB for name, size in per_gpu.items() if size}
    terms["trainer processes"] = trainers * roles * PROCESS_GIB
    terms["snapshots"] = demand.snapshots * trainers * 2 * counts.total / GIB
    moe_layers = arch.num_hidden_layers - arch.first_k_dense if arch.is_moe else 0
    row_bytes = moe_layers * arch.num_experts_per_tok * demand.routing_bytes_per_expert
    terms["routing rows"] = demand.batch_tokens * row_bytes / GIB
    terms["sandboxes"] = demand.sandboxes * demand.sandbox_gib
    terms["inference engines"] = demand.engines * ENGINE_GIB
    terms["Ray object store"] = demand.object_store_gib
    return {name: size for name, size in terms.items() if size}


def trainer_terms(counts: LocalCounts, layout: Layout, workload: Workload) -> dict[str, float]:
    """Bytes that one trainer process of one role keeps in host memory.

    CPU Adam: 16 per owned parameter, and a transient pinned bf16 copy of 2. torch_memory_saver copies what it pauses:
    weights, gradient buffers and the optimizer state that stayed on the GPU (slime docs, offload).
    """
    setup = workload.optimizer
    owned = shard_parameters(counts, layout, setup) * setup.offload_fraction
    backup = weight_bytes(counts, workload.kernels) + gradient_bytes(counts, setup)
    backup += optimizer_bytes(counts, layout, setup)
    return {
        "CPU Adam": host_optimizer_bytes(counts, layout, setup),
        "pinned bf16 copies": 2.0 * owned,
        "memory saver backup": backup if workload.train_offload else 0.0,
    }


def trainer_host_gib(arch: Architecture, layout: Layout, workload: Workload) -> float:
    """GiB of host memory of one trainer process on the heaviest stage."""
    counts = heaviest_counts(arch, layout, workload)
    return sum(trainer_terms(counts, layout, workload).values()) / GIB + PROCESS_GIB


def heaviest_counts(arch: Architecture, layout: Layout, workload: Workload) -> LocalCounts:
    """Parameters on a GPU of the stage that holds the most."""
    found = (
        local_counts(arch, layout, stage, gdn_form=workload.gdn_form, with_mtp=workload.train_mtp, critic=False)
        for stage in stages(arch.num_hidden_layers, layout)
    )
    return max(found, key=lambda counts: counts.total)
