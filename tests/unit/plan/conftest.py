"""Plans of shipped experiments with overrides, and their findings by ID."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from t1cli.plan.build import build_plan
from t1cli.plan.plan import Finding, Plan
from t1cli.spec.load import load_experiment

PlanOf = Callable[..., Plan]
FindingsOf = Callable[..., list[Finding]]


@pytest.fixture(scope="session")
def plan_of() -> PlanOf:
    """`plan_of(name, "a.b=c", …)`: the plan of a shipped experiment with overrides."""

    @cache
    def build(name: str, *overrides: str) -> Plan:
        return build_plan(load_experiment(Path(name), overrides))

    return build


@pytest.fixture(scope="session")
def findings_of(plan_of: PlanOf) -> FindingsOf:
    """`findings_of("R9", name, "a.b=c", …)`: the findings with that ID."""

    def find(id: str, name: str, *overrides: str) -> list[Finding]:
        return [finding for finding in plan_of(name, *overrides).findings if finding.id == id]

    return find
