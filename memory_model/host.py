"""Host RAM of one trainer process: CPU Adam, pinned copies, what torch_memory_saver backs up, the process itself."""

from __future__ import annotations

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


def trainer_terms(counts: LocalCounts, layout: Layout, workload: Workload) -> dict[str, float]:
    """Bytes that one trainer process of one role keeps in host memory.

    CPU Adam: 16 per owned parameter, and a transient pinned bf16 copy of 2. torch_memory_saver copies what it pauses:
    weights, gradient buffers and the optimizer state that stayed on the GPU, as in the run that slime #1851 reports.
    slime 0.3.0 leaves some of it out; `t1 plan` counts that version's terms.
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


def heaviest_counts(arch: Architecture, layout: Layout, workload: Workload, *, critic: bool = False) -> LocalCounts:
    """Parameters on a GPU of the stage that holds the most; a critic has a value head in place of the vocabulary's."""
    found = (
        local_counts(arch, layout, stage, gdn_form=workload.gdn_form, with_mtp=workload.train_mtp, critic=critic)
        for stage in stages(arch.num_hidden_layers, layout)
    )
    return max(found, key=lambda counts: counts.total)
