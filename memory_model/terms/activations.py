"""Activations that one stage keeps, under every kind of recomputation, and its worst layer in backward."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model.architecture import LayerKind
from memory_model.coefficients import Coefficients
from memory_model.terms.layer import checkpoint_input_bytes, layer_memory
from memory_model.terms.pipeline import micro_batches_in_flight
from memory_model.terms.term import LayerMemory, Situation

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StageActivations:
    """Bytes of one stage during training."""

    kept: float
    """Everything kept for backward by all micro-batches in flight, when the newest has just finished its forward."""
    recomputed: float
    """What one chunk's recomputation brings back in backward, beyond `kept`."""
    backward_transient: float
    """The worst layer's gradients in backward."""
    forward_transient: float
    """The worst layer's live set in a forward-only pass, kept pieces included."""


def stage_activations(at: Situation, coefficients: Coefficients) -> StageActivations:
    """Activations of the stage's transformer layers (MTP included where it runs)."""
    recompute = at.workload.recompute
    modules = recompute.modules if recompute.kind == "selective" else _NONE
    counts = list(at.kind_counts) + ([(_mtp_kind(at), at.arch.mtp_num_layers)] if at.has_mtp else [])
    layers = {kind: layer_memory(at, kind) for kind, _ in counts}
    in_flight = micro_batches_in_flight(at.layout, at.stage, at.workload.micro_batches)
    if recompute.kind == "uniform":
        kept, again = _uniform(at, counts, layers, in_flight)
    elif recompute.kind == "block":
        kept, again = _block(at, counts, layers, in_flight)
    else:
        per_pass = sum(count * layers[kind].kept(modules) for kind, count in counts)
        dropped = max((layers[kind].total - layers[kind].kept(modules) for kind in layers), default=0.0)
        kept, again = per_pass * in_flight, dropped
    scale = coefficients.activation_scale
    return StageActivations(
        kept * scale,
        again * scale,
        max((m.backward_transient for m in layers.values()), default=0.0) * scale,
        max((_forward_only(m) for m in layers.values()), default=0.0) * scale,
    )


def _uniform(
    at: Situation, counts: list[tuple[LayerKind, int]], layers: dict[LayerKind, LayerMemory], in_flight: float
) -> tuple[float, float]:
    """Inputs of every chunk of N layers; one chunk comes back whole."""
    size = at.workload.recompute.num_layers
    total = sum(count for _, count in counts)
    checkpoints = -(-total // size) if total else 0
    kept = checkpoints * checkpoint_input_bytes(at) * in_flight
    return kept, _heaviest_chunk(counts, layers, min(size, total))


def _block(
    at: Situation, counts: list[tuple[LayerKind, int]], layers: dict[LayerKind, LayerMemory], in_flight: float
) -> tuple[float, float]:
    """The first N layers of every virtual stage are checkpointed one by one, the others are kept."""
    total = sum(count for _, count in counts)
    checkpointed = min(total, at.workload.recompute.num_layers * at.layout.vpp)
    everything = sum(count * layers[kind].total for kind, count in counts)
    kept_share = everything * (total - checkpointed) / total if total else 0.0
    kept = (kept_share + checkpointed * checkpoint_input_bytes(at)) * in_flight
    # A recomputed layer comes back only after the kept layers of the same micro-batch are gone.
    comes_back = max((m.total for m in layers.values()), default=0.0) - kept_share / at.layout.vpp
    return kept, max(0.0, comes_back) if checkpointed else 0.0


def _heaviest_chunk(counts: list[tuple[LayerKind, int]], layers: dict[LayerKind, LayerMemory], size: int) -> float:
    """The heaviest `size` layers that can stand in one chunk."""
    left, total = size, 0.0
    for kind, count in sorted(counts, key=lambda pair: -layers[pair[0]].total):
        taken = min(left, count)
        total += taken * layers[kind].total
        left -= taken
    return total


def _forward_only(memory: LayerMemory) -> float:
    """Without gradients nothing is kept past its use: the larger of two neighbouring pieces, and the transients."""
    largest = sorted((piece.num_bytes for piece in memory.pieces), reverse=True)[:2]
    return sum(largest) + memory.forward_transient


def _mtp_kind(at: Situation) -> LayerKind:
    return "moe" if at.arch.is_moe else "dense"
