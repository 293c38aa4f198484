"""GPU memory of a spec: what memory_model answers, in the plan's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory_model import (
    Architecture,
    Layout,
    Prediction,
    StagePrediction,
    Waste,
    cap_advice,
    predict,
    stages,
    text_parameters,
    wasted,
    why_impossible,
)
from memory_model.architecture import layer_kinds
from memory_model.band import known_residuals
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.parameters import layer_parameters, mtp_parameters
from memory_model.waste import largest_ep
from t1cli.plan.deltanet import deltanet_working_set_gib
from t1cli.plan.memory_inputs import architecture_of, device_of, layout_of, roles_of, workload_of
from t1cli.plan.memory_overlay import Overlay
from t1cli.plan.plan import MemoryPlan, OverlayUsed, Parameters, PhaseMemory, RoleMemory, StageMemory, Verdict
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec

WORSE: tuple[Verdict, ...] = ("FITS", "TIGHT", "OOM")


@dataclass(frozen=True)
class MemoryAnswer:
    """Everything the plan and its findings need to know about memory and layout."""

    plan: MemoryPlan
    verdict: Verdict
    parameters: Parameters
    verdict_by_role: Mapping[str, Verdict]
    """The verdict of each role alone; empty where no layout or no GPU exists."""
    impossible: tuple[str, ...] = ()
    """Why this layout cannot exist, as arithmetic."""
    waste: tuple[Waste, ...] = ()
    """What it wastes (M3, M4)."""
    largest_ep: int = 1
    """The largest legal expert-parallel size with every other axis kept."""
    cap_note: str | None = None
    """Why lowering max_tokens_per_gpu cannot help; None where it can."""
    deltanet_gib: tuple[float, float] | None = None
    """Working set of one GatedDeltaNet layer for one whole sample, and for its CP shard; None without such layers."""
    coefficients: Coefficients = DEFAULT
    """What the predictions used in place of physics that is not fixed: the defaults, or those of an overlay."""


def plan_memory(spec: ExperimentSpec, topology: Topology, overlay: Overlay | None = None) -> MemoryAnswer:
    """Per role and stage: peak, band and terms. NOT_APPLICABLE on the embedded engine, OOM for an impossible layout."""
    arch = architecture_of(spec)
    total = total_parameters(spec, arch)
    nothing = MemoryPlan(spec.hardware.usable_gib, {})
    if spec.engine.kind == "embedded":
        return MemoryAnswer(nothing, "NOT_APPLICABLE", Parameters(total, (total,)), {})
    layout, workload = layout_of(spec, topology), workload_of(spec, topology)
    if reasons := why_impossible(arch, layout):
        return MemoryAnswer(nothing, "OOM", Parameters(total, (total,)), {}, impossible=reasons)
    coefficients = overlay.coefficients if overlay is not None else DEFAULT
    predictions = predict_roles(spec, topology, coefficients)
    advice = cap_advice(workload, layout.cp)
    return MemoryAnswer(
        plan=MemoryPlan(
            spec.hardware.usable_gib,
            {prediction.role: _role(prediction) for prediction in predictions},
            band=_band(predictions[0]),
            tokens_per_micro_batch=advice.effective_tokens,
            overlay=OverlayUsed(overlay.name, overlay.about, overlay.moved) if overlay is not None else None,
        ),
        verdict=worst_verdict(predictions),
        parameters=Parameters(total, _per_stage(spec, arch, layout)),
        verdict_by_role={prediction.role: prediction.verdict for prediction in predictions},
        waste=wasted(arch, layout, gdn_replicated=workload.gdn_form != "megatron"),
        largest_ep=largest_ep(arch, layout),
        cap_note=None if advice.cap_binds else advice.message,
        deltanet_gib=deltanet_working_set_gib(arch, layout, workload, device_of(spec)),
        coefficients=coefficients,
    )


def predict_roles(
    spec: ExperimentSpec, topology: Topology, coefficients: Coefficients = DEFAULT
) -> tuple[Prediction, ...]:
    """memory_model's prediction for every role; the layout must be possible."""
    arch, layout, workload = architecture_of(spec), layout_of(spec, topology), workload_of(spec, topology)
    device = device_of(spec)
    return tuple(predict(arch, layout, workload, device, role, coefficients=coefficients) for role in roles_of(spec))


def worst_verdict(predictions: tuple[Prediction, ...]) -> Verdict:
    """The worst verdict of several roles."""
    return max((prediction.verdict for prediction in predictions), key=WORSE.index)


def total_parameters(spec: ExperimentSpec, arch: Architecture) -> int:
    """Parameters the trainer holds: the text model, MTP layers if trained, a vision tower if loaded frozen."""
    total = text_parameters(arch).total
    if spec.model.train_mtp:
        total += mtp_parameters(arch).total
    vision = arch.vision
    return total + (vision.params if vision is not None and vision.use == "frozen" else 0)


def _per_stage(spec: ExperimentSpec, arch: Architecture, layout: Layout) -> tuple[int, ...]:
    """Parameters of every pipeline stage; ends of the model on the first and last, so that they sum to the total."""
    kinds = layer_kinds(arch)
    counts = [
        sum(layer_parameters(arch, kinds[layer]).total for layer in stage.layers)
        for stage in stages(arch.num_hidden_layers, layout)
    ]
    vision = arch.vision
    counts[0] += arch.vocab_size * arch.hidden_size
    counts[0] += vision.params if vision is not None and vision.use == "frozen" else 0
    counts[-1] += total_parameters(spec, arch) - sum(counts)
    return tuple(counts)


def _role(prediction: Prediction) -> RoleMemory:
    return RoleMemory(tuple(_stage(stage) for stage in prediction.stages))


def _stage(stage: StagePrediction) -> StageMemory:
    return StageMemory(
        stage=stage.stage,
        peak_gib=stage.peak_gib,
        low_gib=stage.low_gib,
        high_gib=stage.high_gib,
        phase=stage.phase,
        terms=dict(stage.terms),
        phases=tuple(PhaseMemory(phase.name, phase.peak_gib, dict(phase.terms)) for phase in stage.phases),
    )


def _band(prediction: Prediction) -> str:
    low, high = prediction.band
    return f"band {low - 1:+.0%} to {high - 1:+.0%} from the nearest in kind of {len(known_residuals())} measured cases"
