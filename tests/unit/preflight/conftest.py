"""Contexts of shipped experiments, nodes with recorded answers, and checks by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from t1cli.plan.build import build_plan
from t1cli.plan.plan import Plan
from t1cli.preflight.check import Check, Context, Saw
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.preflight.fleet import Fleet, Recorded, ThisMachine
from t1cli.spec.load import LoadedSpec, load_experiment
from t1cli.spec.locate import experiments_dir

TASKS = experiments_dir() / "quickstart" / "tasks"
BY_ID = {check.id: check for check in ALL_CHECKS}
MakeContext = Callable[..., Context]
Ask = Callable[[str, Context], Saw]


@cache
def planned(name: str, *overrides: str) -> tuple[LoadedSpec, Plan]:
    """A shipped experiment and its plan, made once."""
    loaded = load_experiment(Path(name), overrides)
    return loaded, build_plan(loaded)


@pytest.fixture
def context_of(tmp_path: Path) -> MakeContext:
    """A context of `name` with `--set` values, of this machine unless a fleet is given."""

    def make(
        name: str, *overrides: str, fleet: Fleet | None = None, environment: Mapping[str, str] | None = None
    ) -> Context:
        loaded, plan = planned(name, *overrides)
        return Context(loaded, plan, tmp_path / "runs", fleet or ThisMachine(), dict(environment or {}))

    return make


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Three tasks of the quickstart, which bring files."""
    place = tmp_path / "pool"
    for task in sorted(TASKS.iterdir())[:3]:
        shutil.copytree(task, place / task.name)
    return place


def with_tasks(context_of: MakeContext, pool: Path, *sets: str) -> Context:
    """The quickstart on another pool."""
    return context_of("quickstart", f"tasks.path={pool}", *sets)


@pytest.fixture
def ask() -> Ask:
    """What a check sees in a context."""
    return lambda name, context: BY_ID[name].run(context)


def nodes(target: str, *said: Any) -> Recorded:
    """A cluster whose nodes answered one probe with these values."""
    return Recorded({f"node-{number}": {target: value} for number, value in enumerate(said)})


def one(target: str, said: Any) -> Recorded:
    """A single machine that answered so."""
    return Recorded({"this machine": {target: said}}, is_cluster=False)


@pytest.fixture
def every_check() -> tuple[Check, ...]:
    return ALL_CHECKS
