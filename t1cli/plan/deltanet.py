"""What one GatedDeltaNet layer needs for a whole sample, and what for its context-parallel shard (M6)."""

from __future__ import annotations

from dataclasses import replace

from memory_model import Architecture, Device, Layout, Workload, stages
from memory_model.terms.deltanet import deltanet_backward_transient, deltanet_pieces
from memory_model.terms.term import Situation
from memory_model.units import GIB


def deltanet_working_set_gib(
    arch: Architecture, layout: Layout, workload: Workload, device: Device
) -> tuple[float, float] | None:
    """GiB kept and transient in one layer's backward: slime's form (sequence gathered), native CP; None without one."""
    if arch.gated_deltanet is None:
        return None
    stage = stages(arch.num_hidden_layers, layout)[0]
    at = Situation(
        arch=arch,
        layout=layout,
        workload=workload,
        device=device,
        stage=stage,
        role="actor",
        tokens=workload.tokens_per_rank(layout.cp),
    )
    whole = _one_layer(replace(at, workload=replace(workload, gdn_form="slime")))
    return whole / GIB, _one_layer(replace(at, workload=replace(workload, gdn_form="native_cp"))) / GIB


def _one_layer(at: Situation) -> float:
    return sum(piece.num_bytes for piece in deltanet_pieces(at)) + deltanet_backward_transient(at)
