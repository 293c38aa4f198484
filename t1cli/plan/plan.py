"""The Plan: what `t1 plan` says, frozen, as it is saved in a run directory and printed as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

FORMAT_VERSION = 1

Verdict = Literal["FITS", "TIGHT", "OOM", "NOT_APPLICABLE"]
Severity = Literal["error", "warning", "notice"]


@dataclass(frozen=True)
class Finding:
    """Something the planner says about a spec, with its ID in the failure catalogue."""

    id: str
    """Catalogue ID such as `M2`; findings outside the catalogue start with `T`."""
    severity: Severity
    """`error` refuses the launch unless accepted by ID, `warning` does not, `notice` informs."""
    message: str
    """What was found (numbers) and why it matters."""
    where: str
    """`file:line` of the value that causes it."""
    fix: str
    """The one change that removes it."""


@dataclass(frozen=True)
class PhaseMemory:
    """One phase of a step on one pipeline stage."""

    name: str
    peak_gib: float
    terms: Mapping[str, float]
    """Terms alive at the worst moment of the phase, GiB; they sum to `peak_gib`."""


@dataclass(frozen=True)
class StageMemory:
    """Peak memory of one pipeline stage of one role, in GiB per GPU."""

    stage: int
    peak_gib: float
    low_gib: float
    high_gib: float
    phase: str
    """The phase in which the peak occurs."""
    terms: Mapping[str, float]
    """Terms alive at the peak, GiB; they sum to `peak_gib`."""
    phases: tuple[PhaseMemory, ...] = ()
    """Every phase of the step, in order."""


@dataclass(frozen=True)
class RoleMemory:
    """Memory of one role, stage by stage."""

    stages: tuple[StageMemory, ...]


@dataclass(frozen=True)
class OverlayUsed:
    """A calibration that the figures rest on."""

    name: str
    about: str
    """What it was fitted to."""
    coefficients: Mapping[str, float]
    """The coefficients it moved, in place of memory_model's defaults."""
    fitted: bool = True


@dataclass(frozen=True)
class MemoryPlan:
    """GPU memory against what a GPU offers."""

    usable_gib: float
    roles: Mapping[str, RoleMemory]
    band: str = ""
    """Where the error band comes from: how many measured cases, and of which kind."""
    tokens_per_micro_batch: int = 0
    """Tokens of the largest micro-batch on one context-parallel rank."""
    overlay: OverlayUsed | None = None
    """The fitted overlay of `trainer.memory_overlay`; None for uncalibrated figures."""


@dataclass(frozen=True)
class HostPlan:
    """Host memory per node, GiB, by term."""

    ram_gib: float
    needed_gib: float
    terms: Mapping[str, float]


@dataclass(frozen=True)
class DiskPlan:
    """Checkpoint space, GiB."""

    disk_gib: float
    per_save_gib: float
    """One save of every role."""
    total_gib: float
    """All saves that retention keeps, plus the one being written."""
    saves_kept: int


@dataclass(frozen=True)
class Schedule:
    """Steps, epochs and ramp of the campaign."""

    optimizer_steps: int
    rollouts: int
    epochs_seen: float
    tasks_skipped_per_epoch: int
    sandbox_ramp_seconds: float
    routing_bytes_per_token: int
    routing_bytes_per_step: int
    step_seconds: float | None
    binding_side: Literal["rollout", "training", "unknown"]
    gpu_hours: float | None
    """GPU-hours of the whole campaign."""
    gpu_hours_per_step: float | None = None
    """GPU-hours that one lost step costs."""
    gpu_hours_per_day: float = 0.0
    """GPU-hours that one wasted day costs."""
    cost: float | None = None
    """`gpu_hours` times `hardware.price_per_gpu_hour`, in its currency."""
    epochs_drawn: float = 0.0
    """Passes over the pool counting the surplus groups that over-sampling launches and discards."""
    samples_per_step: int = 0
    """slime's global batch size."""


@dataclass(frozen=True)
class PoolPlan:
    """Sandbox demand against capacity."""

    demand: int
    """Sandboxes that one rollout wants at once, over-sampling included."""
    capacity: int
    """Sandboxes that exist at once: servers × tasks × runs of a pool."""
    ratio: float
    """demand / capacity."""
    granted: int = 0
    """Leases of the demand that every limit together grants at once, in the best case."""
    placement_chance: float = 1.0
    """Probability that hash routing finds a server for every task."""
    closing_leases: int = 0
    """Cancelled surplus sandboxes that may still be closing when a pipelined next rollout starts."""
    evaluation_demand: int = 0
    """Trials of one evaluation, if all were started at once."""


@dataclass(frozen=True)
class Parameters:
    """Exact parameter counts."""

    total: int
    per_stage: tuple[int, ...]
    """Parameters of the model in each pipeline stage; they sum to `total`."""


@dataclass(frozen=True)
class Plan:
    """The answer of `t1 plan`."""

    name: str
    digest: str
    verdict: Verdict
    memory: MemoryPlan
    host: HostPlan
    disk: DiskPlan
    schedule: Schedule
    pool: PoolPlan
    parameters: Parameters
    findings: tuple[Finding, ...]
    title: str = ""
    """One line for people: algorithm, pipeline, GPUs."""
    engine: str = "slime"
    """`slime` or `embedded`."""
    source: str = ""
    """The experiment file the plan was made from, as the user named it."""

    @property
    def accepted_for_launch(self) -> bool:
        """Whether nothing in this plan refuses a launch."""
        return self.verdict != "OOM" and not any(f.severity == "error" for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, "accepted": self.accepted_for_launch, **asdict(self)}
