"""Phases outside training on the trainer's GPU: pushing weights to the engines, and a colocated rollout."""

from __future__ import annotations

from memory_model.terms.term import Situation
from memory_model.units import GIB, MIB

UPDATE_BUFFER_BYTES = 512 * MIB
"""slime's default `--update-weight-buffer-size`."""


def weight_push_bytes(at: Situation) -> float:
    """Gathered bf16 parameters on their way to the engines: one bucket twice, or the largest single tensor.

    slime gathers every parameter over TP (experts over EP) into buckets and broadcasts them
    (backends/megatron_utils/update_weight); the embedding is the largest tensor and goes alone.
    """
    h = at.arch.hidden_size
    largest = 2.0 * at.padded_vocab * h if at.stage.has_embedding or at.stage.has_head else 0.0
    return max(2.0 * UPDATE_BUFFER_BYTES, largest)


def engine_share_bytes(at: Situation) -> float:
    """What SGLang takes on a shared GPU: `mem-fraction-static` x the device's memory (weights and KV pool)."""
    return at.workload.sglang_mem_fraction * at.device.usable_gib * GIB
