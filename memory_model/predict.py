"""`predict`: the peak of one role on one layout, stage by stage and phase by phase."""

from __future__ import annotations

from dataclasses import replace

from memory_model.architecture import Architecture
from memory_model.band import error_band, traits_of
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.device import Device
from memory_model.layout import Layout, stages
from memory_model.phases import Terms, phases
from memory_model.prediction import Phase, Prediction, StagePrediction
from memory_model.terms.outside import outside_terms
from memory_model.terms.term import Role, Situation
from memory_model.units import GIB
from memory_model.workload import Workload


def predict(
    arch: Architecture,
    layout: Layout,
    workload: Workload,
    device: Device,
    role: Role = "actor",
    *,
    coefficients: Coefficients = DEFAULT,
    band: tuple[float, float] | None = None,
) -> Prediction:
    """Memory of every pipeline stage. The layout must be possible (`why_impossible` is empty).

    The band is given as factors on the peak, or taken from the measured cases nearest in kind.
    """
    tokens = workload.tokens_per_rank(layout.cp)
    built = tuple(
        _stage(Situation(arch, layout, workload, stage, role, tokens, device, coefficients))
        for stage in stages(arch.num_hidden_layers, layout)
    )
    if band is None:
        peak = max(stage.peak_gib for stage in built)
        band = error_band(traits_of(arch, layout, workload), peak)
    banded = tuple(
        replace(stage, low_gib=stage.peak_gib * band[0], high_gib=stage.peak_gib * band[1]) for stage in built
    )
    return Prediction(role, banded, device.usable_gib, band)


def _stage(at: Situation) -> StagePrediction:
    built = tuple(_phase(name, terms, at) for name, terms in phases(at).items())
    worst = max(built, key=lambda phase: phase.peak_gib)
    return StagePrediction(
        stage=at.stage.index,
        phases=built,
        peak_gib=worst.peak_gib,
        low_gib=worst.peak_gib,
        high_gib=worst.peak_gib,
        phase=worst.name,
        terms=worst.terms,
    )


def _phase(name: str, terms: Terms, at: Situation) -> Phase:
    coefficients, allocated = at.coefficients, sum(terms.values())
    outside = outside_terms(at.layout, at.workload, coefficients, allocated=allocated, moe=at.arch.is_moe)
    everything = {key: value / GIB for key, value in {**terms, **outside}.items() if value > 0}
    reserved = allocated * coefficients.reserved_over_allocated
    return Phase(name, everything, allocated / GIB, reserved / GIB, sum(everything.values()))
