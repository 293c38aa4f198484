"""The smallest change of a spec that would fit: one idea at a time, each predicted again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memory_model import why_impossible
from memory_model.coefficients import DEFAULT, Coefficients
from t1cli.plan.memory import predict_roles, worst_verdict
from t1cli.plan.memory_inputs import architecture_of, layout_of
from t1cli.plan.plan import Verdict
from t1cli.plan.topology import placement_problems, plan_topology
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.trainer import FullRecompute

Changes = dict[str, Any]
"""Dotted keys of `topology`, `trainer` and `hardware` to new values."""


@dataclass(frozen=True)
class Alternative:
    """One changed spec: what to set, and what memory it then needs on the worst GPU."""

    settings: tuple[str, ...]
    """`key=value` as `--set` takes them."""
    peak_gib: float
    verdict: Verdict

    @property
    def command_line(self) -> str:
        return " ".join(f"--set {setting}" for setting in self.settings)


def smallest_changes(
    spec: ExperimentSpec, *, now: Verdict, coefficients: Coefficients = DEFAULT
) -> tuple[Alternative, ...]:
    """The first change better than the verdict `now`: one that is not OOM any more, and one whose band fits too."""
    tight: Alternative | None = None
    for changes in _ideas(spec):
        found = _predicted(spec, changes, coefficients)
        if found is None or found.verdict == "OOM":
            continue
        if found.verdict == "FITS":
            return (found,) if tight is None else (tight, found)
        if now == "OOM" and tight is None:
            tight = found
    return () if tight is None else (tight,)


def _ideas(spec: ExperimentSpec) -> Iterator[Changes]:
    """Cheapest first: cut the sequence, recompute, offload, cut the layers, then more GPUs."""
    cut = spec.topology
    for factor in (2, 4, 8):
        yield from _longer_cp(spec, cut.cp * factor)
    if spec.trainer.recompute.kind != "full":
        yield {"trainer.recompute.kind": "full"}
    if not spec.trainer.optimizer_cpu_offload:
        yield {"trainer.optimizer_cpu_offload": True, "trainer.precision_aware_optimizer": True}
    for factor in (2, 4):
        yield {"topology.pp": cut.pp * factor}
    for factor in (2, 3, 4, 8):
        nodes = {"topology.train_nodes": cut.train_nodes * factor}
        yield nodes
        for longer in (2, 4, 8):
            for changes in _longer_cp(spec, cut.cp * longer):
                yield nodes | changes


def _longer_cp(spec: ExperimentSpec, cp: int) -> Iterator[Changes]:
    """CP alone, then with GatedDeltaNet's native form where the model has such layers and the spec lacks it."""
    yield {"topology.cp": cp}
    if spec.model.architecture.gated_deltanet is not None and spec.trainer.gdn_context_parallel == "none":
        yield {"topology.cp": cp, "trainer.gdn_context_parallel": "native"}


def _predicted(spec: ExperimentSpec, changes: Changes, coefficients: Coefficients) -> Alternative | None:
    """What the changed spec needs; None where such a layout does not exist."""
    changed = _changed(spec, changes)
    needed = -(-plan_topology(changed).total_gpus // max(1, spec.hardware.gpus_per_node))
    if needed > spec.hardware.num_nodes:
        changes = changes | {"hardware.num_nodes": needed}
        changed = _changed(spec, changes)
    topology = plan_topology(changed)
    if placement_problems(changed, topology) or why_impossible(architecture_of(changed), layout_of(changed, topology)):
        return None
    predictions = predict_roles(changed, topology, coefficients)
    settings = tuple(f"{key}={_yaml(value)}" for key, value in changes.items())
    return Alternative(settings, max(found.peak_gib for found in predictions), worst_verdict(predictions))


def _changed(spec: ExperimentSpec, changes: Changes) -> ExperimentSpec:
    for key, value in changes.items():
        block, name = key.split(".", 1)
        update: Changes = {"recompute": FullRecompute()} if name == "recompute.kind" else {name: value}
        spec = spec.model_copy(update={block: getattr(spec, block).model_copy(update=update)})
    return spec


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
