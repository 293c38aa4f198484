"""`t1 calibrate`: readings of logs joined to the plans of what wrote them, and the coefficients that fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory_model import why_impossible
from memory_model.calibration import Change, Fit, Observation, calibrate
from memory_model.joining import join
from memory_model.overlay import overlay_text
from memory_model.readings import Reading, read_logs
from memory_model.terms.term import Role
from t1cli.errors import BadInput, Diagnostic
from t1cli.plan.memory_inputs import architecture_of, device_of, layout_of, roles_of, workload_of
from t1cli.plan.plan import FORMAT_VERSION
from t1cli.plan.topology import plan_topology
from t1cli.spec.load import LoadedSpec

UNDERSTOOD = "Megatron's memory lines, torch's out-of-memory messages, nvidia-smi, slime's memory lines, metrics.jsonl"


@dataclass(frozen=True)
class Source:
    """A log file or a directory of logs, and the spec of what wrote it."""

    path: Path
    loaded: LoadedSpec


@dataclass(frozen=True)
class Compared:
    """One reading beside what memory_model says of it; errors are predicted minus measured."""

    label: str
    instrument: str
    stage: int | None
    """Pipeline stage; None where the log does not say, which is compared with the highest."""
    measured_gib: float
    error_before_gib: float
    error_after_gib: float


@dataclass(frozen=True)
class Calibration:
    """What the readings say about memory_model's unknowns."""

    role: Role
    sources: tuple[str, ...]
    num_readings: int
    compared: tuple[Compared, ...]
    """The highest reading of every instrument and stage of a source: peaks are what is predicted."""
    changes: tuple[Change, ...]
    held_out_before_gib: float
    """Mean absolute error with the defaults."""
    held_out_after_gib: float | None
    """The same with fits that did not see the reading they are judged by; None for a single reading."""

    @property
    def accepted(self) -> bool:
        """Whether the fit tells more than the defaults about readings that it did not see."""
        return self.held_out_after_gib is None or self.held_out_after_gib <= self.held_out_before_gib

    def to_json(self, output: Path | None) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        written = None if output is None else str(output)
        return {"format_version": FORMAT_VERSION, "accepted": self.accepted, **asdict(self), "output": written}


def calibrate_sources(sources: Sequence[Source], role: Role) -> tuple[Calibration, Fit]:
    """Fit to the readings of all sources. BadInput, all problems at once, for a source without plan or reading."""
    problems: list[Diagnostic] = []
    readings: list[Reading] = []
    observations: list[Observation] = []
    for source in sources:
        found = read_logs([source.path])
        joined = _joined(source, found, role, problems)
        readings += found
        observations += joined
    if problems:
        raise BadInput.many(tuple(problems))
    fit = calibrate(observations)
    return (
        Calibration(
            role=role,
            sources=tuple(str(source.path) for source in sources),
            num_readings=len(readings),
            compared=tuple(_compared(item, fit) for item in observations),
            changes=fit.changes,
            held_out_before_gib=fit.held_out_before_gib,
            held_out_after_gib=fit.held_out_after_gib,
        ),
        fit,
    )


def calibration_text(found: Calibration, fit: Fit) -> str:
    """The fit as the text of an overlay."""
    return overlay_text(fit, about=f"Fitted to {len(found.compared)} readings of {', '.join(found.sources)}.")


def _joined(
    source: Source, readings: Iterable[Reading], role: Role, problems: list[Diagnostic]
) -> tuple[Observation, ...]:
    spec = source.loaded.spec
    topology = plan_topology(spec)
    if spec.engine.kind == "embedded":
        where = source.loaded.where("engine.kind")
        problems.append(Diagnostic("the embedded engine has no GPU memory to calibrate", where))
        return ()
    if role not in roles_of(spec):
        where = source.loaded.where("algorithm.kind")
        problems.append(Diagnostic(f"{spec.algorithm.kind} has no {role}", where, hint="`--role actor`"))
        return ()
    arch, layout = architecture_of(spec), layout_of(spec, topology)
    if reasons := why_impossible(arch, layout):
        hint = f"`{source.loaded.again('plan')}`"
        problems += [Diagnostic(reason, source.loaded.where("topology"), hint=hint) for reason in reasons]
        return ()
    workload, device = workload_of(spec, topology), device_of(spec)
    joined = join(readings, arch=arch, layout=layout, workload=workload, device=device, role=role)
    if not joined:
        problems.append(Diagnostic("no memory reading to compare", str(source.path), hint=f"read are {UNDERSTOOD}"))
    return joined


def _compared(item: Observation, fit: Fit) -> Compared:
    return Compared(
        label=item.label,
        instrument=item.instrument,
        stage=item.stage,
        measured_gib=item.gib,
        error_before_gib=fit.errors_before_gib[item.label],
        error_after_gib=fit.errors_after_gib[item.label],
    )
