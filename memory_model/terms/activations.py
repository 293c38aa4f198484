"""Activations that one stage keeps, under every kind of recomputation, and its worst layer in backward."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from memory_model.architecture import Architecture, LayerKind, layer_kinds
from memory_model.coefficients import Coefficients
from memory_model.layout import Stage
from memory_model.terms import pipeline
from memory_model.terms.layer import checkpoint_input_bytes, layer_memory
from memory_model.terms.term import LayerMemory, Situation

_NONE: frozenset[str] = frozenset()
Layers = dict[LayerKind, LayerMemory]
Chunk = tuple[LayerKind, ...]


@dataclass(frozen=True)
class StageActivations:
    """Bytes of one stage during training."""

    kept_at_loss: float
    """Kept for backward by all micro-batches in flight when the last chunk has just run forward."""
    kept_at_backward: float
    """The same when a backward pass begins."""
    recomputed: float
    """What one chunk's recomputation brings back in backward, beyond what is kept."""
    backward_transient: float
    """The worst layer's gradients in backward."""
    forward_transient: float
    """The worst layer's live set in a forward-only pass, kept pieces included."""


def stage_activations(at: Situation) -> StageActivations:
    """Activations of the stage's transformer layers (MTP included where it runs)."""
    chunks = _chunks(at)
    layers: Layers = {
        kind: _scaled(layer_memory(at, kind), kind, at.coefficients)
        for kind in dict.fromkeys(kind for chunk in chunks for kind in chunk)
    }
    by_chunk = {chunk: _chunk_bytes(at, chunk, layers) for chunk in set(chunks)}
    sizes = [by_chunk[chunk] for chunk in chunks]
    where = (at.layout.pp, at.layout.vpp, at.stage.index, at.workload.micro_batches)
    return StageActivations(
        pipeline.heaviest(pipeline.kept_at_loss(*where), sizes),
        pipeline.heaviest(pipeline.kept_at_backward(*where), sizes),
        max(_recomputed(at, chunk, layers) for chunk in by_chunk),
        max((memory.backward_transient for memory in layers.values()), default=0.0),
        max((memory.forward_only for memory in layers.values()), default=0.0),
    )


def _chunks(at: Situation) -> list[Chunk]:
    """Layer kinds of every chunk of the stage; MTP layers close the last one."""
    chunks = list(_held_kinds(at.arch, at.stage))
    if at.has_mtp:
        kind: LayerKind = "moe" if at.arch.is_moe else "dense"
        chunks[-1] += (kind,) * at.arch.mtp_num_layers
    return chunks


@lru_cache(maxsize=16384)
def _held_kinds(arch: Architecture, stage: Stage) -> tuple[Chunk, ...]:
    kinds = layer_kinds(arch)
    return tuple(tuple(kinds[layer] for layer in chunk) for chunk in stage.chunks)


def _scaled(memory: LayerMemory, kind: LayerKind, coefficients: Coefficients) -> LayerMemory:
    factor = coefficients.activation_scale * (coefficients.deltanet_scale if kind.startswith("gdn") else 1.0)
    return memory if factor == 1.0 else memory.scaled(factor)


def _chunk_bytes(at: Situation, chunk: Chunk, layers: Layers) -> float:
    """What one forward pass of a chunk keeps.

    uniform N keeps the input of every N layers; block N checkpoints the first N layers of the chunk and keeps the
    others whole (megatron/core/transformer/transformer_block.py).
    """
    recompute = at.workload.recompute
    if recompute.kind == "uniform":
        return -(-len(chunk) // recompute.num_layers) * checkpoint_input_bytes(at)
    if recompute.kind == "block":
        checkpointed = min(len(chunk), recompute.num_layers)
        whole = sum(layers[kind].total for kind in chunk[checkpointed:])
        return whole + checkpointed * checkpoint_input_bytes(at)
    modules = recompute.modules if recompute.kind == "selective" else _NONE
    return sum(chunk.count(kind) * layers[kind].kept(modules) for kind in set(chunk))


def _recomputed(at: Situation, chunk: Chunk, layers: Layers) -> float:
    recompute = at.workload.recompute
    if not chunk or recompute.kind == "none":
        return 0.0
    if recompute.kind == "selective":
        return max(layers[kind].total - layers[kind].kept(recompute.modules) for kind in set(chunk))
    if recompute.kind == "uniform":
        size = min(recompute.num_layers, len(chunk))
        starts = range(0, len(chunk), recompute.num_layers)
        return max(sum(layers[kind].total for kind in chunk[start : start + size]) for start in starts)
    # A checkpointed layer comes back only after the kept layers of the same micro-batch are gone.
    checkpointed = min(len(chunk), recompute.num_layers)
    gone = sum(layers[kind].total for kind in chunk[checkpointed:])
    back = max((layers[kind].total for kind in chunk[:checkpointed]), default=0.0)
    return max(0.0, back - gone)
