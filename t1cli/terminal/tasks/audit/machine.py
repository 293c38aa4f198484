"""The part of an audit that needs no judge: findings, and a measure for each dimension that can be measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from t1cli.terminal.tasks.audit.checks import Check, checks_of
from t1cli.terminal.tasks.audit.files import TaskFiles
from t1cli.terminal.tasks.audit.finding import Finding, Rejection
from t1cli.terminal.tasks.audit.hidden import demanded, hidden_requirements, unnamed
from t1cli.terminal.tasks.audit.leakage import test_leakage
from t1cli.terminal.tasks.audit.rubric import DimensionName, Limits
from t1cli.terminal.tasks.audit.shortcuts import solution_shortcuts
from t1cli.terminal.tasks.audit.weak import assertions_of, requirements_of, verifier_too_weak

_INSTALL = re.compile(r"\bpip3? install\s+([^\n&|;]+)")
_CHANCE = re.compile(
    r"\b(?:random\.(?!seed)\w+\(|datetime\.now|time\.time\(|date\.today|requests\.(?:get|post)|urlopen)"
)


@dataclass(frozen=True)
class MachinePart:
    """What a machine says of a task."""

    findings: tuple[Finding, ...]
    measures: Mapping[DimensionName, float]
    """0 to 1; a dimension that only a judge can score is absent."""
    checks: int


def examine(files: TaskFiles, limits: Limits) -> MachinePart:
    """Look for everything that can be seen without running the task and without a model."""
    checks = checks_of(files.tests)
    findings = (
        *hidden_requirements(files, checks),
        *test_leakage(files, checks),
        *solution_shortcuts(files, checks),
        *verifier_too_weak(files, checks, limits),
    )
    return MachinePart(findings, _measures(files, checks, findings, limits), len(checks))


def _measures(
    files: TaskFiles, checks: Sequence[Check], findings: Sequence[Finding], limits: Limits
) -> dict[DimensionName, float]:
    found: dict[DimensionName, float] = {
        "sealed": _clean(findings, "test_leakage"),
        "derived": _clean(findings, "solution_shortcuts"),
        "reproducible": _reproducible(files),
    }
    if checks:  # of a verifier that is no Python test, a machine can say no more
        literals = {literal for literal, _ in demanded(checks)}
        found["specified"] = 1.0 - len(unnamed(files, checks)) / len(literals) if literals else 1.0
        found["covered"] = min(1.0, assertions_of(checks) / requirements_of(files.instruction))
        told = sum(not check.is_empty for check in checks)
        found["graded"] = min(1.0, told / limits.checks_full)
    return found


def _clean(findings: Sequence[Finding], rejection: Rejection) -> float:
    own = [finding for finding in findings if finding.rejection == rejection]
    return 1.0 if not own else 0.0 if any(finding.hard for finding in own) else 0.5


def _reproducible(files: TaskFiles) -> float:
    """Half for packages with pinned versions, half for tests without clock, chance or network."""
    installs = [words for text in files.environment.values() for words in _INSTALL.findall(text)]
    pinned = all("==" in words or " -r" in f" {words}" for words in installs)
    steady = not any(_CHANCE.search(text) for name, text in files.tests.items() if name.endswith(".py"))
    return 0.5 * pinned + 0.5 * steady
