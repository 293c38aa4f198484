"""A loaded spec, stages that answer at once, and a dialogue that says yes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from t1cli.launch.backend import Backend
from t1cli.launch.fake_backend import FakeBackend
from t1cli.launch.proposal import LaunchOptions, Proposal, Stages
from t1cli.plan.build import build_plan
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.run.record import RunRecord
from t1cli.spec.load import LoadedSpec, load_experiment

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "experiments/quickstart/experiment.yaml"


@dataclass
class Listener:
    """A dialogue that records what it hears."""

    answers: bool = True
    terminal: bool = True
    asked: list[Proposal] = field(default_factory=list)
    records: list[RunRecord] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def can_ask(self) -> bool:
        return self.terminal

    def ask(self, proposal: Proposal) -> bool:
        self.asked.append(proposal)
        return self.answers

    def started(self, record: RunRecord) -> None:
        self.records.append(record)

    def progress(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def load() -> Callable[..., LoadedSpec]:
    """The quickstart with four rollouts and a save every two; further `--set` values as arguments."""

    def loader(*overrides: str) -> LoadedSpec:
        return load_experiment(QUICKSTART, ["rollout.num_rollouts=4", "checkpoint.every_rollouts=2", *overrides])

    return loader


@pytest.fixture
def loaded(load: Callable[..., LoadedSpec]) -> LoadedSpec:
    return load()


@pytest.fixture
def options(tmp_path: Path) -> LaunchOptions:
    return LaunchOptions(tmp_path / "runs", "t1 launch SPEC", assume_yes=True)


def report(*checks: CheckResult) -> PreflightReport:
    return PreflightReport("quickstart", "0" * 12, checks)


@pytest.fixture
def stages() -> Callable[..., Stages]:
    """Stages with a given backend, and a preflight with the given checks."""

    def make(backend: Backend | None = None, *checks: CheckResult) -> Stages:
        chosen = backend or FakeBackend()
        return Stages(plan=build_plan, preflight=lambda *_: report(*checks), backend=lambda spec: chosen)

    return make
