"""GPU memory of a spec: what memory_model answers, in the plan's words."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model.parameters import text_parameters
from memory_model.waste import Waste
from t1cli.plan.memory_inputs import architecture_of
from t1cli.plan.plan import MemoryPlan, Parameters, Verdict
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec


@dataclass(frozen=True)
class MemoryAnswer:
    """Everything the plan and its findings need to know about memory and layout."""

    plan: MemoryPlan
    verdict: Verdict
    parameters: Parameters
    impossible: tuple[str, ...] = ()
    """Why this layout cannot exist, as arithmetic."""
    waste: tuple[Waste, ...] = ()
    """What it wastes (M3, M4)."""
    cap_note: str | None = None
    """Why lowering max_tokens_per_gpu cannot help; None where it can."""
    deltanet_gib: tuple[float, float] | None = None
    """Working set of one GatedDeltaNet layer for one whole sample, and for its CP shard."""


def plan_memory(spec: ExperimentSpec, topology: Topology) -> MemoryAnswer:
    """Per role and stage: peak, band and terms. NOT_APPLICABLE on the embedded engine."""
    arch = architecture_of(spec)
    if spec.engine.kind == "embedded":
        total = text_parameters(arch).total
        return MemoryAnswer(
            plan=MemoryPlan(spec.hardware.usable_gib, {}),
            verdict="NOT_APPLICABLE",
            parameters=Parameters(total, (total,)),
        )
    raise NotImplementedError
