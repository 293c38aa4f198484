"""bf16 weights of one stage, split into dense (dp x cp sharded optimizer) and experts (edp sharded)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from memory_model.architecture import Architecture, layer_kinds
from memory_model.layout import Layout, Stage
from memory_model.parameters import NONE, Parameters, layer_parameters, mtp_parameters
from memory_model.workload import GdnForm, Kernels

WEIGHT_BYTES = 2
FP8_COPY_BYTES = 2
"""Quantised weights and their transposes, one byte each (transformer_engine float8 tensors)."""


@dataclass(frozen=True, slots=True)
class LocalCounts:
    """Parameters that one GPU of a stage holds."""

    dense: float
    experts: float
    frozen: float = 0.0
    """Weights without gradient and optimizer state (a frozen vision tower)."""

    @property
    def total(self) -> float:
        """All parameters on the GPU."""
        return self.dense + self.experts + self.frozen


@lru_cache(maxsize=65536)
def local_counts(
    arch: Architecture, layout: Layout, stage: Stage, *, gdn_form: GdnForm, with_mtp: bool, critic: bool
) -> LocalCounts:
    """Parameters on one GPU of `stage`, vocabulary padded as Megatron pads it."""
    body = stage_body(arch, stage)
    if with_mtp and stage.has_head:
        body = body + mtp_parameters(arch)
    gdn_shards = layout.tp if gdn_form == "megatron" else 1
    dense = body.sharded / layout.tp + body.replicated + body.gdn / gdn_shards
    dense += _ends(arch, layout, stage, with_mtp=with_mtp, critic=critic)
    frozen = arch.vision.params if arch.vision and arch.vision.use == "frozen" and stage.has_embedding else 0
    return LocalCounts(dense, body.experts / (layout.ep * layout.etp), float(frozen))


@lru_cache(maxsize=4096)
def stage_body(arch: Architecture, stage: Stage) -> Parameters:
    """The stage's transformer layers (and the final norm on the last), without embedding, head and MTP."""
    kinds = layer_kinds(arch)
    held = [kinds[layer] for layer in stage.layers]
    body = NONE
    for kind in dict.fromkeys(held):
        body = body + layer_parameters(arch, kind) * held.count(kind)
    if stage.has_head:
        body = body + Parameters(replicated=arch.hidden_size * (2 if arch.norm_bias else 1))
    return body


def _ends(arch: Architecture, layout: Layout, stage: Stage, *, with_mtp: bool, critic: bool) -> float:
    table = layout.padded_vocab(arch.vocab_size) * arch.hidden_size / layout.tp
    total = 0.0
    if stage.has_embedding:
        total += table + arch.learned_positions * arch.hidden_size
    if not stage.has_head:
        return total
    if critic:
        return total + arch.hidden_size
    # Tied weights exist once on a single stage and as a second copy on the last of several.
    if not arch.tie_word_embeddings or not stage.has_embedding:
        total += table
    # The MTP stage embeds its shifted tokens from its own copy (megatron/core/models/gpt/gpt_model.py).
    if with_mtp and arch.mtp_num_layers and not stage.has_embedding and not arch.tie_word_embeddings:
        total += table
    return total


def weight_bytes(counts: LocalCounts, kernels: Kernels) -> float:
    """bf16 weights: 2 bytes a parameter; fp8 adds a quantised and a transposed byte, or takes bf16's place."""
    if kernels.fp8 and not kernels.fp8_param_gather:
        return (WEIGHT_BYTES + FP8_COPY_BYTES) * counts.total
    return WEIGHT_BYTES * counts.total
