"""`t1 plan --search`: every legal layout of the model on the training GPUs, each with its best setting of the knobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from memory_model import Layout
from memory_model.coefficients import DEFAULT
from memory_model.search import Candidate, search
from t1cli.errors import BadInput
from t1cli.plan.memory_inputs import architecture_of, device_of, layout_of, workload_of
from t1cli.plan.memory_overlay import overlay_of
from t1cli.plan.plan import FORMAT_VERSION, Verdict
from t1cli.plan.topology import plan_topology
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec


@dataclass(frozen=True)
class FoundLayout:
    """One layout under the setting of recomputation, offload and packing that serves it best."""

    tp: int
    pp: int
    vpp: int
    cp: int
    ep: int
    etp: int
    recompute: str
    """`none`, `selective` or `full`."""
    optimizer_cpu_offload: bool
    max_tokens_per_gpu: int
    peak_gib: float
    """Worst GPU over roles, stages and phases; the states alone where those do not fit."""
    high_gib: float
    """Upper end of its error band."""
    verdict: Verdict
    score: float
    """Relative throughput, to order by: 1 over pipeline bubble, communication, recomputation and offload."""
    why_not: str
    """Empty when it fits; else role, stage, phase and term that do not."""
    current: bool
    """Whether these are the spec's own axes."""
    settings: tuple[str, ...]
    """What `--set` needs to plan it."""


@dataclass(frozen=True)
class SearchAnswer:
    """All layouts, best first: those that fit by score, then tight ones, then misses by how near they are."""

    name: str
    train_gpus: int
    usable_gib: float
    layouts: tuple[FoundLayout, ...]
    searched: int
    """Layouts times settings that were predicted."""
    impossible: int
    """Combinations of axes that Megatron cannot build."""
    seconds: float
    memory_overlay: str | None = None
    """The fitted overlay that the predictions used; None for uncalibrated figures."""

    def count(self, verdict: Verdict) -> int:
        """Layouts with that verdict."""
        return sum(layout.verdict == verdict for layout in self.layouts)

    @property
    def found(self) -> bool:
        """Whether any layout is not OOM."""
        return self.count("OOM") < len(self.layouts)

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}


def search_layouts(loaded: LoadedSpec) -> SearchAnswer:
    """Judge the whole legal space on the spec's training GPUs. BadInput for an engine without GPUs."""
    spec = loaded.spec
    topology = plan_topology(spec)
    if not topology.train_gpus:
        raise BadInput(
            "nothing to search: the embedded engine has no GPU layout",
            loaded.where("engine.kind"),
            "`--set engine.kind=slime` with a hardware and a topology preset",
        )
    overlay = overlay_of(loaded)
    result = search(
        architecture_of(spec),
        topology.train_gpus,
        workload_of(spec, topology),
        device_of(spec),
        coefficients=overlay.coefficients if overlay is not None else DEFAULT,
    )
    own = _axes(layout_of(spec, topology))
    return SearchAnswer(
        name=spec.name,
        train_gpus=topology.train_gpus,
        usable_gib=spec.hardware.usable_gib,
        layouts=tuple(_found(spec, candidate, own) for candidate in _best_settings(result.candidates)),
        searched=result.searched,
        impossible=result.impossible,
        seconds=result.seconds,
        memory_overlay=spec.trainer.memory_overlay,
    )


def _best_settings(candidates: Iterable[Candidate]) -> Iterable[Candidate]:
    """The first candidate of every layout; they come best first."""
    best: dict[Layout, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.layout, candidate)
    return best.values()


def _axes(layout: Layout) -> dict[str, int]:
    return {axis: getattr(layout, axis) for axis in ("tp", "pp", "vpp", "cp", "ep", "etp")}


def _found(spec: ExperimentSpec, candidate: Candidate, own: dict[str, int]) -> FoundLayout:
    workload, axes = candidate.workload, _axes(candidate.layout)
    recompute = {"uniform": "full", "block": "full"}.get(workload.recompute.kind, workload.recompute.kind)
    offload = workload.optimizer.offload_fraction > 0
    settings = [f"topology.{axis}={size}" for axis, size in axes.items() if size != own[axis]]
    if recompute != spec.trainer.recompute.kind:
        settings.append(f"trainer.recompute.kind={recompute}")
        if recompute == "selective":
            settings.append(f"trainer.recompute.modules=[{','.join(sorted(workload.recompute.modules))}]")
    if offload != spec.trainer.optimizer_cpu_offload:
        settings += [f"trainer.optimizer_cpu_offload={str(offload).lower()}"]
        settings += ["trainer.precision_aware_optimizer=true"] if offload else []
    return FoundLayout(
        **axes,
        recompute=recompute,
        optimizer_cpu_offload=offload,
        max_tokens_per_gpu=workload.max_tokens_per_gpu,
        peak_gib=candidate.peak_gib,
        high_gib=candidate.high_gib,
        verdict=candidate.verdict,
        score=candidate.score,
        why_not=candidate.why_not,
        current=axes == own,
        settings=tuple(settings),
    )
