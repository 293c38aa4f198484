"""Layouts that run but waste memory: expert parallelism below its largest legal size, TP that only replicates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memory_model.architecture import Architecture
from memory_model.layout import Layout, why_impossible
from memory_model.parameters import text_parameters
from memory_model.units import GIB


@dataclass(frozen=True)
class Waste:
    """One wasteful choice: which rule, how much per GPU, and the sentence for people."""

    id: str
    gib: float
    message: str


def wasted(
    arch: Architecture, layout: Layout, *, gdn_replicated: bool = True, grad_bytes: int = 4
) -> tuple[Waste, ...]:
    """What this possible layout wastes: M3 (expert parallelism too low), M4 (TP that replicates)."""
    found = [
        _low_expert_parallelism(arch, layout, grad_bytes),
        _more_tp_than_groups(arch, layout),
        _replicated_deltanet(arch, layout, grad_bytes) if gdn_replicated else None,
    ]
    return tuple(item for item in found if item is not None)


def largest_ep(arch: Architecture, layout: Layout) -> int:
    """The largest legal EP with every other axis kept."""
    options = [ep for ep in range(1, arch.num_experts + 1) if not why_impossible(arch, replace(layout, ep=ep))]
    return max(options, default=layout.ep)


def _low_expert_parallelism(arch: Architecture, layout: Layout, grad_bytes: int) -> Waste | None:
    if not arch.is_moe:
        return None
    best = largest_ep(arch, layout)
    if best <= layout.ep:
        return None
    per_ep = text_parameters(arch).experts / layout.pp / layout.etp
    gib = per_ep * (2 + grad_bytes) * (1 / layout.ep - 1 / best) / GIB
    shards = layout.world // layout.pp
    return Waste(
        "M3",
        gib,
        f"ep {layout.ep} where {best} is legal: expert weights and gradients take {gib:.1f} GiB more per GPU; "
        f"expert optimizer bytes do not change (always 1/{shards} of the stage, ep x etp x edp = {shards})",
    )


def _more_tp_than_groups(arch: Architecture, layout: Layout) -> Waste | None:
    groups = arch.num_key_value_heads
    if arch.mla or layout.tp <= groups:
        return None
    width = (arch.num_attention_heads * (2 if arch.attn_output_gate else 1) + 2 * groups) * arch.head_dim
    return Waste(
        "M4",
        0.0,
        f"tp {layout.tp} is above {groups} key/value groups: every rank gathers the whole {width}-wide qkv "
        f"({width * 2 / 1024:.1f} KiB a token) and keeps one full key/value group, so attention activations stop "
        f"shrinking at tp {groups}",
    )


def _replicated_deltanet(arch: Architecture, layout: Layout, grad_bytes: int) -> Waste | None:
    params = text_parameters(arch).gdn
    if not params or layout.tp == 1:
        return None
    per_stage = params / layout.pp
    gib = per_stage * (2 + grad_bytes) * (1 - 1 / layout.tp) / GIB
    return Waste(
        "M4",
        gib,
        f"GatedDeltaNet is not split over TP in slime: {params / 1e9:.2f} B parameters are copied to all "
        f"{layout.tp} TP ranks, {gib:.1f} GiB of weights and gradients per GPU that Megatron's own form would not hold",
    )
