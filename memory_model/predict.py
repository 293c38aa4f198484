"""`predict`: the peak of one role on one layout, stage by stage and phase by phase."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from memory_model.architecture import Architecture, layer_kinds
from memory_model.band import error_band, traits_of
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.device import Device
from memory_model.layout import Layout, Stage, stages
from memory_model.phases import Terms, phases
from memory_model.prediction import Phase, Prediction, StagePrediction
from memory_model.terms.outside import allocator_reserve, outside_terms
from memory_model.terms.rollout import engine_share_bytes
from memory_model.terms.term import Role, Situation, layer_counts
from memory_model.units import GIB
from memory_model.workload import Recompute, Workload


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

    The band is given as factors on the peak, or taken from the measured cases nearest in kind. Answers are kept, so
    asking again costs nothing; `predict_once` does not keep them.
    """
    return _remembered(arch, layout, workload, device, role, coefficients, band)


def predict_once(
    arch: Architecture,
    layout: Layout,
    workload: Workload,
    device: Device,
    role: Role = "actor",
    *,
    coefficients: Coefficients = DEFAULT,
    band: tuple[float, float] | None = None,
) -> Prediction:
    """`predict` for those who ask thousands of different questions once each (search)."""
    held = stages(arch.num_hidden_layers, layout)
    return _predict(held, arch, layout, workload, device, role, coefficients, band)


def predict_worst(
    arch: Architecture,
    layout: Layout,
    workload: Workload,
    device: Device,
    role: Role = "actor",
    *,
    coefficients: Coefficients = DEFAULT,
) -> Prediction:
    """`predict_once` without the middle stages that cannot be the worst.

    A stage with the pattern of an earlier one keeps no more micro-batches than that, and no embedding.
    """
    seen: set[tuple[object, ...]] = set()
    able = []
    for stage in stages(arch.num_hidden_layers, layout):
        pattern = _pattern(arch, stage, workload.recompute)
        if stage.has_head or pattern not in seen:
            able.append(stage)
        seen.add(pattern)
    return _predict(tuple(able), arch, layout, workload, device, role, coefficients, None)


def _pattern(arch: Architecture, stage: Stage, recompute: Recompute) -> tuple[object, ...]:
    """What the memory of a stage's layers follows from: how many of each kind a chunk has, and their order where that
    decides which of them are computed again together.
    """
    if recompute.kind == "block" or (recompute.kind == "uniform" and recompute.num_layers > 1):
        kinds = layer_kinds(arch)
        return tuple(tuple(kinds[layer] for layer in chunk) for chunk in stage.chunks)
    return tuple(frozenset(layer_counts(arch, chunk)) for chunk in stage.chunks)


def _predict(
    held: tuple[Stage, ...],
    arch: Architecture,
    layout: Layout,
    workload: Workload,
    device: Device,
    role: Role,
    coefficients: Coefficients,
    band: tuple[float, float] | None,
) -> Prediction:
    tokens = workload.tokens_per_rank(layout.cp)
    built = tuple(
        _stage(Situation(arch, layout, workload, stage, role, tokens, device, coefficients)) for stage in held
    )
    if band is None:
        peak = max(stage.peak_gib for stage in built)
        band = error_band(traits_of(arch, layout, workload), peak)
    return Prediction(role, tuple(stage.with_band(band) for stage in built), device.usable_gib, band)


@lru_cache(maxsize=1024)
def _remembered(
    arch: Architecture,
    layout: Layout,
    workload: Workload,
    device: Device,
    role: Role,
    coefficients: Coefficients,
    band: tuple[float, float] | None,
) -> Prediction:
    return predict_once(arch, layout, workload, device, role, coefficients=coefficients, band=band)


def _stage(at: Situation) -> StagePrediction:
    fixed = outside_terms(at.layout, at.workload, at.coefficients, moe=at.arch.is_moe)
    built = tuple(_phase(name, terms, at, fixed) for name, terms in phases(at).items())
    if at.workload.colocated_rollout:
        built += (_rollout(at),)
    worst = max(built, key=lambda phase: phase.peak_gib)
    return StagePrediction(
        at.stage.index, built, worst.peak_gib, worst.peak_gib, worst.peak_gib, worst.name, worst.terms
    )


def _rollout(at: Situation) -> Phase:
    """The engine's share of a shared GPU beside every trainer process that has been put to the host."""
    trainers = len(at.workload.roles) * at.coefficients.other_role_residual_gib
    terms = {"inference engine": engine_share_bytes(at) / GIB, "offloaded trainers' processes": trainers}
    return Phase("rollout", terms, 0.0, 0.0, sum(terms.values()))


def _phase(name: str, terms: Terms, at: Situation, fixed: Mapping[str, float]) -> Phase:
    allocated = sum(terms.values())
    everything = {key: value / GIB for key, value in terms.items() if value > 0}
    everything["allocator reserve"] = allocator_reserve(allocated, at.coefficients) / GIB
    for key, value in fixed.items():
        everything[key] = value / GIB
    reserved = allocated / GIB + everything["allocator reserve"]
    return Phase(name, everything, allocated / GIB, reserved, sum(everything.values()))
