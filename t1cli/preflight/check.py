"""What a check is: a name, the catalogue rows it catches, and a function from a Context to what it saw."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from t1cli.plan.plan import Plan
from t1cli.preflight.fleet import Fleet, NoFleet
from t1cli.preflight.memo import Memo
from t1cli.preflight.report import NodeResult, Status
from t1cli.spec.command_line import command_line
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec
from t1cli.spec.locate import shown_path

NOT_A_NODE = (
    "this machine is not a node of the campaign's cluster; name the cluster with engine.ray_address to check its nodes"
)


@dataclass(frozen=True)
class Context:
    """What every check may look at."""

    loaded: LoadedSpec
    plan: Plan
    runs_dir: Path
    """Where run directories go on this machine."""
    fleet: Fleet = field(default_factory=lambda: NoFleet(NOT_A_NODE))
    """The nodes that the campaign runs on."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """Of the machine that launches."""
    memo: Memo = field(default_factory=Memo, compare=False)
    """What several checks need is asked once."""

    @property
    def spec(self) -> ExperimentSpec:
        return self.loaded.spec

    @property
    def runs_here(self) -> bool:
        """Whether the campaign's trials and trainers run on this very machine."""
        return self.spec.engine.kind == "embedded"

    @property
    def on_slime(self) -> bool:
        """Whether GPUs, Megatron and SGLang are involved at all."""
        return self.spec.engine.kind == "slime"

    def again(self, command: str, *more: str) -> str:
        """Another command about the same experiment, for fixes."""
        elsewhere = self.runs_dir if command in ("launch", "preflight") else None
        return self.loaded.again(command, *more, runs_dir=elsewhere)

    @property
    def check_tasks(self) -> str:
        """What runs every task of the pool."""
        return command_line("tasks check", shown_path(self.tasks_path))

    @property
    def tasks_path(self) -> Path:
        """The task pool; a relative path starts at the experiment file."""
        return (self.loaded.path.parent / self.spec.tasks.path).resolve()

    @property
    def trials_at_once(self) -> int:
        """Trials that the campaign really has alive at the same moment."""
        return min(self.plan.pool.demand, self.plan.pool.capacity) or 1


@dataclass(frozen=True)
class Saw:
    """The answer of one check, without its name and duration."""

    status: Status
    found: str
    wanted: str = ""
    fix: str = ""
    nodes: tuple[NodeResult, ...] = ()
    """What each node of a cluster said, for a check that asks them all."""


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


@dataclass(frozen=True)
class Kept:
    """An answer that is dear enough to be kept for the next preflight."""

    seconds: float
    """How long it stays true."""
    key: Callable[[Context], str]
    """What the answer depends on; another key is another question."""


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
    """Above this the check counts as crashed; waiting for `needs` does not count."""
    needs: tuple[str, ...] = ()
    """Checks, earlier in the table, that must have passed or warned before this one makes sense."""
    kept: Kept | None = None
    """Null: asked every time."""

    @property
    def family(self) -> str:
        return self.id.split(".")[0]

    @property
    def question(self) -> str:
        """What it asks, in a sentence or two."""
        said: Any = getattr(self.run, "question", None) or self.run.__doc__ or ""
        return " ".join(str(said).split())
