"""`predict`: the peak of one role on one layout, stage by stage and phase by phase."""

from __future__ import annotations

from collections.abc import Mapping

from memory_model.architecture import Architecture
from memory_model.band import error_band, traits_of
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.device import Device
from memory_model.layout import Layout, stages
from memory_model.phases import Terms, phases
from memory_model.prediction import Phase, Prediction, StagePrediction
from memory_model.terms.outside import allocator_reserve, outside_terms
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
    return Prediction(role, tuple(stage.with_band(band) for stage in built), device.usable_gib, band)


def _stage(at: Situation) -> StagePrediction:
    fixed = outside_terms(at.layout, at.workload, at.coefficients, moe=at.arch.is_moe)
    built = tuple(_phase(name, terms, at, fixed) for name, terms in phases(at).items())
    worst = max(built, key=lambda phase: phase.peak_gib)
    return StagePrediction(
        at.stage.index, built, worst.peak_gib, worst.peak_gib, worst.peak_gib, worst.name, worst.terms
    )


def _phase(name: str, terms: Terms, at: Situation, fixed: Mapping[str, float]) -> Phase:
    allocated = sum(terms.values())
    everything = {key: value / GIB for key, value in terms.items() if value > 0}
    everything["allocator reserve"] = allocator_reserve(allocated, at.coefficients) / GIB
    for key, value in fixed.items():
        everything[key] = value / GIB
    reserved = allocated / GIB + everything["allocator reserve"]
    return Phase(name, everything, allocated / GIB, reserved, sum(everything.values()))
