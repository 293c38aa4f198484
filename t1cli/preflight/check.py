"""What a check is: a name, the catalogue rows it catches, and a function from a Context to what it saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from t1cli.plan.plan import Plan
from t1cli.preflight.report import Status
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec


@dataclass(frozen=True)
class Context:
    """What every check may look at."""

    loaded: LoadedSpec
    plan: Plan
    runs_dir: Path
    """Where run directories go on this machine."""

    @property
    def spec(self) -> ExperimentSpec:
        return self.loaded.spec

    @property
    def runs_here(self) -> bool:
        """Whether the campaign's trials and trainers run on this very machine."""
        return self.spec.engine.kind == "embedded"

    @property
    def tasks_path(self) -> Path:
        """The task pool; a relative path starts at the experiment file."""
        return (self.loaded.path.parent / self.spec.tasks.path).resolve()


@dataclass(frozen=True)
class Saw:
    """The answer of one check, without its name and duration."""

    status: Status
    found: str
    wanted: str = ""
    fix: str = ""


def passed(found: str, wanted: str = "") -> Saw:
    """The check is satisfied."""
    return Saw("pass", found, wanted)


def warned(found: str, wanted: str, fix: str) -> Saw:
    """Something a person should know; launching is still sensible."""
    return Saw("warn", found, wanted, fix)


def failed(found: str, wanted: str, fix: str) -> Saw:
    """The campaign would fail or waste GPU time."""
    return Saw("fail", found, wanted, fix)


def skipped(reason: str) -> Saw:
    """The check does not apply here, or cannot be asked here; the reason says which."""
    return Saw("skipped", reason)


NOT_A_NODE = (
    "this machine is not a node of the campaign's cluster; name the cluster with engine.ray_address to check its nodes"
)


@dataclass(frozen=True)
class Check:
    """One question that a probe can answer before GPU time is spent."""

    id: str
    """`family.question`."""
    catalogue: tuple[str, ...]
    """Catalogue rows that it catches."""
    run: Callable[[Context], Saw]
    """Must leave nothing behind and must not change anything but its own probe's traces."""
    limit_seconds: float = 20.0
    """Above this the check counts as crashed."""
