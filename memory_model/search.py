"""All legal layouts of a model on a cluster with the knobs that matter, best first, with why each near miss fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from time import perf_counter
from typing import Literal

from memory_model.architecture import Architecture
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.cost import Objective, score
from memory_model.device import Device
from memory_model.layout import Layout, Stage, stages, why_impossible
from memory_model.predict import predict_worst
from memory_model.prediction import Prediction
from memory_model.terms.gradients import gradient_bytes
from memory_model.terms.optimizer import optimizer_bytes
from memory_model.terms.term import Role
from memory_model.terms.weights import local_counts, weight_bytes
from memory_model.units import GIB
from memory_model.workload import Recompute, Workload

Progress = Callable[[int, int], None]
"""Told the layouts judged so far and their number."""

NO_RECOMPUTE = Recompute()
SELECTIVE = Recompute("selective", frozenset({"moe_act", "mlp", "layernorm"}))
FULL = Recompute("uniform")


@dataclass(frozen=True)
class Space:
    """Which knobs the search turns. Every axis takes all legal sizes unless it is listed here."""

    max_tp: int = 8
    """Tensor parallelism stays inside a node."""
    vpps: tuple[int, ...] = ()
    """Virtual chunks to try; none given: every size that divides the layers of a stage."""
    etps: tuple[int, ...] = ()
    """Expert tensor-parallel sizes; none given: every size inside a node."""
    recomputes: tuple[Recompute, ...] = (NO_RECOMPUTE, SELECTIVE, FULL)
    offload_fractions: tuple[float, ...] = (0.0, 1.0)
    token_caps: tuple[int, ...] = ()
    """`max_tokens_per_gpu` values to try; none: the workload's own."""
    keep_axes: dict[str, int] = field(default_factory=dict)
    """Axes that must keep a value, for example {"tp": 2}."""


@dataclass(frozen=True)
class Candidate:
    """One layout with one setting of the knobs, judged for every role."""

    layout: Layout
    workload: Workload
    peak_gib: float
    high_gib: float
    verdict: Literal["FITS", "TIGHT", "OOM"]
    score: float
    """Higher is better; comparable inside one search only."""
    why_not: str
    """Empty when it fits; else the role, stage, phase and binding term, or what makes it impossible."""


@dataclass(frozen=True)
class SearchResult:
    """Candidates best first, fitting ones before those that do not."""

    candidates: tuple[Candidate, ...]
    searched: int
    impossible: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Layouts with knobs judged per second."""
        return self.searched / self.seconds if self.seconds else 0.0

    def fitting(self) -> tuple[Candidate, ...]:
        """Those that are not OOM."""
        return tuple(candidate for candidate in self.candidates if candidate.verdict != "OOM")


def search(
    arch: Architecture,
    world: int,
    workload: Workload,
    device: Device,
    *,
    space: Space | None = None,
    objective: Objective = "throughput",
    coefficients: Coefficients = DEFAULT,
    progress: Progress | None = None,
) -> SearchResult:
    """Judge the whole legal space on `world` training GPUs for every role of the workload."""
    started = perf_counter()
    space = space or Space(max_tp=device.gpus_per_node)
    judge = _Judge(arch, device, coefficients, objective)
    every = tuple(layouts(arch, world, space))
    legal = [layout for layout in every if not why_impossible(arch, layout)]
    found = list[Candidate]()
    for done, layout in enumerate(legal):
        if progress is not None:
            progress(done, len(legal))
        found += [judge.candidate(layout, setting) for setting in _settings(workload, layout, space)]
    found.sort(key=_rank)
    return SearchResult(tuple(found), len(found), len(every) - len(legal), perf_counter() - started)


def judged(
    arch: Architecture, layout: Layout, workload: Workload, device: Device, *, coefficients: Coefficients = DEFAULT
) -> Candidate:
    """One possible layout under exactly these settings, always predicted in full."""
    return _Judge(arch, device, coefficients, "throughput").predicted(layout, workload)


def _rank(candidate: Candidate) -> tuple[int, float, float]:
    """Fitting ones by score, the others by how near they miss."""
    order = {"FITS": 0, "TIGHT": 1, "OOM": 2}[candidate.verdict]
    return (order, 0.0 if order == 2 else -candidate.score, candidate.peak_gib)


def layouts(arch: Architecture, world: int, space: Space) -> Iterator[Layout]:
    """Every combination of axis sizes that divide the GPUs; the impossible ones are not filtered yet."""
    divisors = [size for size in range(1, world + 1) if world % size == 0]
    inside = [size for size in divisors if size <= space.max_tp]
    experts = [size for size in divisors if arch.is_moe and arch.num_experts % size == 0] or [1]
    etps = (space.etps or inside) if arch.is_moe else (1,)
    pps = [size for size in divisors if size <= arch.num_hidden_layers]
    for tp, pp, cp in product(inside, pps, divisors):
        if world % (tp * pp * cp):
            continue
        last = _last_stage(arch, pp)
        for ep, etp, vpp in product(experts, etps, _virtual_sizes(arch, pp, space)):
            layout = Layout(world, tp=tp, pp=pp, cp=cp, ep=ep, etp=etp, vpp=vpp, last_stage_layers=last)
            if all(getattr(layout, key) == value for key, value in space.keep_axes.items()):
                yield layout


def _last_stage(arch: Architecture, pp: int) -> int | None:
    """Layers of the last stage where they do not split evenly: what equal other stages leave (61 = 3 x 16 + 13)."""
    even, rest = divmod(arch.num_hidden_layers, pp)
    if rest == 0:
        return None
    left = arch.num_hidden_layers - (even + 1) * (pp - 1)
    return left if left > 0 else arch.num_hidden_layers - even * (pp - 1)


def _virtual_sizes(arch: Architecture, pp: int, space: Space) -> tuple[int, ...]:
    if pp == 1 or arch.num_hidden_layers % pp:
        return (1,)
    per_stage = arch.num_hidden_layers // pp
    legal = tuple(size for size in range(1, per_stage + 1) if per_stage % size == 0)
    return tuple(size for size in legal if size in space.vpps) if space.vpps else legal


def _settings(workload: Workload, layout: Layout, space: Space) -> Iterator[Workload]:
    """The workload under every setting of the knobs that changes anything on this layout."""
    caps = space.token_caps or (workload.max_tokens_per_gpu,)
    seen = set()
    for recompute, fraction, cap in product(space.recomputes, space.offload_fractions, caps):
        optimizer = replace(
            workload.optimizer,
            offload_fraction=fraction,
            precision_aware=workload.optimizer.precision_aware or fraction > 0,
        )
        setting = replace(workload, recompute=recompute, optimizer=optimizer, max_tokens_per_gpu=cap)
        # A cap below the longest sample's share changes the number of micro-batches but not the peak (M7).
        effect = (recompute, fraction, setting.tokens_per_rank(layout.cp))
        if effect not in seen:
            seen.add(effect)
            yield setting


class _Judge:
    """Predicts every role of a candidate; layouts whose states alone do not fit are not predicted in full."""

    def __init__(self, arch: Architecture, device: Device, coefficients: Coefficients, objective: Objective) -> None:
        self._arch, self._device = arch, device
        self._coefficients, self._objective = coefficients, objective
        self._states: dict[tuple[object, ...], float] = {}

    def candidate(self, layout: Layout, workload: Workload) -> Candidate:
        states = self._states_gib(layout, workload)
        if states > self._device.usable_gib:
            worth = score(self._arch, layout, workload, self._objective)
            why = f"weights, gradients and optimizer alone take {states:.1f} of {self._device.usable_gib:.1f} GiB"
            return Candidate(layout, workload, states, states, "OOM", worth, why)
        return self.predicted(layout, workload)

    def predicted(self, layout: Layout, workload: Workload) -> Candidate:
        worth = score(self._arch, layout, workload, self._objective)
        roles: tuple[Role, ...] = tuple("critic" if role == "critic" else "actor" for role in workload.roles)
        predictions = [
            predict_worst(self._arch, layout, workload, self._device, role, coefficients=self._coefficients)
            for role in dict.fromkeys(roles)
        ]
        worst = max(predictions, key=lambda prediction: prediction.peak_gib)
        return Candidate(layout, workload, worst.peak_gib, worst.high_gib, worst.verdict, worth, _why_not(worst))

    def _states_gib(self, layout: Layout, workload: Workload) -> float:
        """Weights, gradients and optimizer of the heaviest stage; virtual chunks do not change them."""
        setup = workload.optimizer
        key = (layout.tp, layout.pp, layout.cp, layout.ep, layout.etp, setup)
        if key not in self._states:
            plain = replace(layout, vpp=1)
            found = (self._stage_bytes(plain, stage, workload) for stage in stages(self._arch.num_hidden_layers, plain))
            self._states[key] = max(found) / GIB
        return self._states[key]

    def _stage_bytes(self, layout: Layout, stage: Stage, workload: Workload) -> float:
        setup = workload.optimizer
        counts = local_counts(
            self._arch, layout, stage, gdn_form=workload.gdn_form, with_mtp=workload.train_mtp, critic=False
        )
        held = weight_bytes(counts, workload.kernels) + gradient_bytes(counts, setup)
        return held + optimizer_bytes(counts, layout, setup)


def _why_not(prediction: Prediction) -> str:
    if prediction.verdict == "FITS":
        return ""
    stage, usable = prediction.worst, prediction.usable_gib
    term = max(stage.terms, key=lambda name: stage.terms[name])
    head = f"{prediction.role}, stage {stage.stage}, {stage.phase}: largest term {term} {stage.terms[term]:.1f} GiB"
    if prediction.verdict == "OOM":
        return f"{head}; peak {stage.peak_gib:.1f} is {stage.peak_gib - usable:.1f} GiB over {usable:.1f}"
    return f"{head}; peak {stage.peak_gib:.1f} fits, the band up to {stage.high_gib:.1f} does not"
