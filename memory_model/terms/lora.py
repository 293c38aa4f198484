"""LoRA adapters: their parameters on one GPU, from the shapes of the linears they sit on."""

from __future__ import annotations

from memory_model.terms.buffers import linear_shapes
from memory_model.terms.term import Situation


def adapter_parameters(at: Situation) -> float:
    """rank x (in + out) for every linear of the stage, routed experts included, GatedDeltaNet projections left out."""
    total = 0.0
    for kind, count in at.kind_counts:
        shapes = linear_shapes(at.arch, at.layout, kind)
        per_layer = sum(rows + columns for rows, columns in shapes)
        if kind.endswith("moe"):
            f = at.arch.moe_intermediate_size / at.layout.etp
            local = at.arch.num_experts / at.layout.ep
            per_layer += (local - 1) * (3 * f + 2 * at.arch.hidden_size)
        total += count * per_layer
    return total * at.workload.lora_rank
