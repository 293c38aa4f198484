"""What a launch is asked to do, what it proposes, whom it talks to, and the stages it calls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from t1cli.launch.backend import Backend, Progress, backend_for
from t1cli.plan.plan import Plan
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.run.directory import RunDirectory
from t1cli.run.record import RunRecord
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec


@dataclass(frozen=True)
class LaunchOptions:
    """How to launch; nothing here changes the experiment."""

    runs_root: Path
    command: str
    """The command line so far with all its options, for messages: `t1 launch SPEC --set … --resume`."""
    accepted: frozenset[str] = frozenset()
    """IDs whose refusal is overridden."""
    assume_yes: bool = False
    resume: bool = False
    detach: bool = False


@dataclass(frozen=True)
class Proposal:
    """What the user is asked about."""

    run: RunDirectory
    engine: str
    plan: Plan
    preflight: PreflightReport
    accepted: tuple[str, ...]
    resumes_from_rollout: int | None
    """Rollout that comes next after the checkpoint; None without one."""
    changes: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    """Dotted keys that differ from the campaign's latest attempt: old and new value."""


def stop_command(loaded: LoadedSpec, options: LaunchOptions) -> str:
    """What ends the campaign that this launch is about, for messages."""
    return loaded.again("launch", "--stop", runs_dir=options.runs_root)


class Dialogue(Protocol):
    """The launch's side of a conversation with a person or a script."""

    def can_ask(self) -> bool:
        """Whether there is somebody to answer."""
        ...

    def ask(self, proposal: Proposal) -> bool:
        """Whether to start."""
        ...

    def started(self, record: RunRecord) -> None:
        """The run exists and has been started."""
        ...

    def progress(self, line: str) -> None:
        """A line of the running campaign."""
        ...


def plan_for(loaded: LoadedSpec) -> Plan:
    """The plan of a spec."""
    from t1cli.plan.build import build_plan

    return build_plan(loaded)


def preflight_for(loaded: LoadedSpec, plan: Plan, runs_root: Path, progress: Progress) -> PreflightReport:
    """The preflight of a planned spec: a progress line for what is not as it should be, and one for all together."""
    from t1cli.preflight.runner import run_preflight

    def tell(check: CheckResult) -> None:
        if check.status not in ("pass", "skipped"):
            progress(f"preflight  {check.status:<8}{check.id}  {check.found}")

    began = time.monotonic()
    progress(f"preflight  asking; `{loaded.again('preflight', runs_dir=runs_root)}` shows every check")
    report = run_preflight(loaded, plan, runs_dir=runs_root, progress=tell)
    states = Counter[str](check.status for check in report.checks)
    told = ", ".join(f"{states[state]} {word}" for state, word in _STATES.items() if states[state])
    progress(f"preflight  {told} in {time.monotonic() - began:.1f} s")
    return report


_STATES: Final = {"pass": "passed", "warn": "warned", "fail": "failed", "crashed": "crashed", "skipped": "skipped"}


@dataclass(frozen=True)
class Stages:
    """The stages that a launch calls; tests put others in their place."""

    plan: Callable[[LoadedSpec], Plan] = plan_for
    preflight: Callable[[LoadedSpec, Plan, Path, Progress], PreflightReport] = preflight_for
    backend: Callable[[ExperimentSpec], Backend] = backend_for
