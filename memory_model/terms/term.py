"""What every term file returns, and the situation it is computed for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from memory_model.architecture import Architecture, LayerKind, layer_kinds
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.device import H100_80, Device
from memory_model.layout import Layout, Stage
from memory_model.workload import Workload

Role = Literal["actor", "critic"]


@dataclass(frozen=True)
class Situation:
    """One pipeline stage of one role under one layout and workload."""

    arch: Architecture
    layout: Layout
    workload: Workload
    stage: Stage
    role: Role
    tokens: int
    """Tokens of the largest micro-batch on one context-parallel rank."""
    device: Device = H100_80
    coefficients: Coefficients = DEFAULT

    @cached_property
    def kind_counts(self) -> tuple[tuple[LayerKind, int], ...]:
        """How many layers of each kind the stage holds."""
        return layer_counts(self.arch, self.stage.layers)

    @property
    def has_mtp(self) -> bool:
        """Whether this stage runs the MTP layers (Megatron puts them on the last stage)."""
        return self.workload.train_mtp and self.arch.mtp_num_layers > 0 and self.stage.has_head

    @property
    def has_logits(self) -> bool:
        """Whether this stage computes logits over the vocabulary."""
        return self.stage.has_head and self.role == "actor"

    @property
    def sequence_tokens(self) -> float:
        """Tokens of one rank between tensor-parallel regions (sequence parallel share)."""
        return self.tokens / self.layout.sequence_shards

    @property
    def linear_input_bytes(self) -> int:
        """Bytes of one kept element that only a linear layer reads: 1 in fp8, else 2."""
        return 1 if self.workload.kernels.fp8 else 2

    @property
    def padded_vocab(self) -> int:
        """Vocabulary rows after Megatron's padding."""
        return self.layout.padded_vocab(self.arch.vocab_size)


@lru_cache(maxsize=16384)
def layer_counts(arch: Architecture, layers: tuple[int, ...]) -> tuple[tuple[LayerKind, int], ...]:
    """How many layers of each kind there are among these (numbers from 0), in the order of their first."""
    kinds = layer_kinds(arch)
    held = [kinds[layer] for layer in layers]
    return tuple((kind, held.count(kind)) for kind in dict.fromkeys(held))


@dataclass(frozen=True, slots=True)
class Piece:
    """Something one layer keeps for its backward pass, and the recompute modules that drop it."""

    name: str
    num_bytes: float
    dropped_by: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LayerMemory:
    """One transformer layer: what it keeps, and what lives only while it runs, in bytes on one rank."""

    pieces: tuple[Piece, ...]
    forward_transient: float
    """Live only during this layer's forward, beyond the pieces."""
    backward_transient: float
    """Live at the worst instant of this layer's backward, beyond the pieces."""

    @cached_property
    def total(self) -> float:
        """All kept bytes, before recomputation drops any."""
        return sum(piece.num_bytes for piece in self.pieces)

    def kept(self, modules: frozenset[str]) -> float:
        """Kept bytes when `modules` are recomputed."""
        known = self._kept.get(modules)
        if known is None:
            known = sum(piece.num_bytes for piece in self.pieces if not piece.dropped_by & modules)
            self._kept[modules] = known
        return known

    @cached_property
    def _kept(self) -> dict[frozenset[str], float]:
        return {}

    @cached_property
    def forward_only(self) -> float:
        """Live set of a pass without gradients: the larger of two neighbouring pieces, and the transients.

        Nothing is kept past its use, so two pieces of the layer at most are alive together.
        """
        largest = sorted((piece.num_bytes for piece in self.pieces), reverse=True)[:2]
        return sum(largest) + self.forward_transient

    def scaled(self, factor: float) -> LayerMemory:
        """The same layer with every number times `factor` (a calibrated coefficient)."""
        pieces = tuple(Piece(piece.name, piece.num_bytes * factor, piece.dropped_by) for piece in self.pieces)
        return LayerMemory(pieces, self.forward_transient * factor, self.backward_transient * factor)
