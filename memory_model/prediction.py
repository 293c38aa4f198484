"""What `predict` returns: per stage and phase the terms alive together, the peak and its error band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TRAIN_FORWARD = "train forward and loss"
TRAIN_BACKWARD = "train backward"

Verdict = Literal["FITS", "TIGHT", "OOM"]


@dataclass(frozen=True)
class Phase:
    """One phase of a step on one stage: every term alive at its worst moment, in GiB."""

    name: str
    terms: Mapping[str, float]
    allocated_gib: float
    """What `torch.cuda.max_memory_allocated` would read."""
    reserved_gib: float
    """What `torch.cuda.max_memory_reserved` would read."""
    peak_gib: float
    """What the device shows: reserved, plus context, NCCL and other processes. The terms sum to it."""

    @property
    def binding_term(self) -> str:
        """The largest term that is not a model state."""
        return max(self.terms, key=lambda name: self.terms[name])


@dataclass(frozen=True)
class StagePrediction:
    """One pipeline stage: its phases and the worst of them."""

    stage: int
    phases: tuple[Phase, ...]
    peak_gib: float
    low_gib: float
    high_gib: float
    phase: str
    terms: Mapping[str, float]

    def with_band(self, band: tuple[float, float]) -> StagePrediction:
        """The same stage with its band as factors on the peak."""
        low, high = self.peak_gib * band[0], self.peak_gib * band[1]
        return StagePrediction(self.stage, self.phases, self.peak_gib, low, high, self.phase, self.terms)

    @property
    def allocated_gib(self) -> float:
        """The largest allocated peak over all phases."""
        return max(phase.allocated_gib for phase in self.phases)

    @property
    def activation_growth_gib(self) -> float:
        """What a training forward adds to allocated memory: kept activations and the head's output."""
        terms = next(phase.terms for phase in self.phases if phase.name == TRAIN_FORWARD)
        return sum(terms.get(name, 0.0) for name in ("activations", "logits", "MTP logits", "head"))

    @property
    def reserved_gib(self) -> float:
        """The largest reserved peak over all phases."""
        return max(phase.reserved_gib for phase in self.phases)


@dataclass(frozen=True)
class Prediction:
    """One role on one layout. `stages` may hold only the stages that can be the worst."""

    role: str
    stages: tuple[StagePrediction, ...]
    usable_gib: float
    band: tuple[float, float]
    """Error band as factors on the peak (low, high), from the nearest measured cases."""

    @property
    def worst(self) -> StagePrediction:
        """The stage with the highest peak."""
        return max(self.stages, key=lambda stage: stage.peak_gib)

    @property
    def peak_gib(self) -> float:
        """Highest peak on any stage."""
        return self.worst.peak_gib

    @property
    def low_gib(self) -> float:
        """Lower end of the worst stage's band."""
        return self.worst.low_gib

    @property
    def high_gib(self) -> float:
        """Upper end of the worst stage's band."""
        return self.worst.high_gib

    @property
    def phase(self) -> str:
        """The phase of the highest peak."""
        return self.worst.phase

    @property
    def verdict(self) -> Verdict:
        """OOM when the estimate exceeds the device, TIGHT when the band does, FITS otherwise."""
        if self.peak_gib > self.usable_gib:
            return "OOM"
        return "TIGHT" if self.high_gib > self.usable_gib else "FITS"
