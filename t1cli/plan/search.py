"""`t1 plan --search`: every legal layout of the model on the training GPUs, each with its best setting of the knobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memory_model import Layout, why_impossible
from memory_model.coefficients import DEFAULT
from memory_model.search import Candidate, Progress, judged, search
from memory_model.workload import Recompute
from t1cli.errors import BadInput
from t1cli.plan.memory_inputs import architecture_of, device_of, layout_of, workload_of
from t1cli.plan.memory_overlay import overlay_of
from t1cli.plan.plan import FORMAT_VERSION, Verdict
from t1cli.plan.topology import plan_topology
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec
from t1cli.spec.trainer import FullRecompute, SelectiveRecompute


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
    """Whether these are the spec's own axes, under the setting that serves them best."""
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
    own: FoundLayout | None = None
    """The experiment as it is: its axes and its own settings; None where its layout cannot exist."""
    own_impossible: tuple[str, ...] = ()
    """Why its layout cannot exist, as arithmetic."""
    simplest: FoundLayout | None = None
    """What fits with the fewest values changed; of several, the one with the best score. None where nothing fits."""

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


def search_layouts(loaded: LoadedSpec, progress: Progress | None = None) -> SearchAnswer:
    """Judge the whole legal space on the spec's training GPUs. BadInput for an engine without GPUs."""
    spec = loaded.spec
    topology = plan_topology(spec)
    if not topology.train_gpus:
        raise BadInput(
            "nothing to search: the embedded engine has no GPU layout",
            loaded.where("engine.kind"),
            "`--set engine.kind=slime` with a hardware and a topology preset",
        )
    arch, layout = architecture_of(spec), layout_of(spec, topology)
    workload, device = workload_of(spec, topology), device_of(spec)
    overlay = overlay_of(loaded)
    coefficients = overlay.coefficients if overlay is not None else DEFAULT
    result = search(arch, topology.train_gpus, workload, device, coefficients=coefficients, progress=progress)
    impossible = why_impossible(arch, layout)
    judge = None if impossible else judged(arch, layout, workload, device, coefficients=coefficients)
    own = _axes(layout)
    return SearchAnswer(
        name=spec.name,
        train_gpus=topology.train_gpus,
        usable_gib=spec.hardware.usable_gib,
        layouts=tuple(_found(spec, candidate, own) for candidate in _best_settings(result.candidates)),
        searched=result.searched,
        impossible=result.impossible,
        seconds=result.seconds,
        memory_overlay=spec.trainer.memory_overlay,
        own=None if judge is None else _found(spec, judge, own),
        own_impossible=impossible,
        simplest=_simplest([_found(spec, candidate, own) for candidate in result.fitting()]),
    )


def _simplest(fitting: Sequence[FoundLayout]) -> FoundLayout | None:
    # Who has a plan that is tight would rather have one that fits, at the price of one more change.
    return min(fitting, key=lambda found: (found.verdict != "FITS", len(found.settings), -found.score), default=None)


def _best_settings(candidates: Iterable[Candidate]) -> Iterable[Candidate]:
    """The first candidate of every layout; they come best first."""
    best: dict[Layout, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.layout, candidate)
    return best.values()


def _recompute_settings(spec: ExperimentSpec, wanted: Recompute, kind: str) -> list[str]:
    """What turns the spec's recomputation into the wanted one."""
    now = spec.trainer.recompute
    settings = [f"trainer.recompute.kind={kind}"] if kind != now.kind else []
    if kind == "selective" and not (isinstance(now, SelectiveRecompute) and set(now.modules) == wanted.modules):
        settings.append(f"trainer.recompute.modules=[{','.join(sorted(wanted.modules))}]")
    if (
        isinstance(now, FullRecompute)
        and kind == "full"
        and (now.method, now.num_layers) != (wanted.kind, wanted.num_layers)
    ):
        settings += [f"trainer.recompute.method={wanted.kind}", f"trainer.recompute.num_layers={wanted.num_layers}"]
    return settings


def _axes(layout: Layout) -> dict[str, int]:
    return {axis: getattr(layout, axis) for axis in ("tp", "pp", "vpp", "cp", "ep", "etp")}


def _found(spec: ExperimentSpec, candidate: Candidate, own: dict[str, int]) -> FoundLayout:
    workload, axes = candidate.workload, _axes(candidate.layout)
    recompute = {"uniform": "full", "block": "full"}.get(workload.recompute.kind, workload.recompute.kind)
    offload = workload.optimizer.offload_fraction > 0
    settings = [f"topology.{axis}={size}" for axis, size in axes.items() if size != own[axis]]
    settings += _recompute_settings(spec, workload.recompute, recompute)
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
