"""Verifiers too weak to tell whether the goal was reached."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from t1cli.terminal.tasks.audit.checks import Check
from t1cli.terminal.tasks.audit.files import TaskFiles
from t1cli.terminal.tasks.audit.finding import Finding
from t1cli.terminal.tasks.audit.rubric import Limits

_RUNS_PYTEST = re.compile(r"^(?!\s*#).*\bpytest\b", re.M)
_FULL_REWARD = re.compile(r"^(?!\s*#).*\b(?:echo|printf)\s+['\"]?1(?:\.0)?['\"]?\s*>\s*\S*reward", re.M)
_DECIDES = re.compile(r"^(?!\s*#).*(?:\bif\b|&&|\|\||\bcase\b|\$\(\()", re.M)
_WRITES = re.compile(r"(?<![0-9&<>])>>?\s*(?!&|\s|/dev/)|\btee\b|\bsed\s+-i|\bcp\s|\bpython3?\b|write_text|\bpatch\b")
_ITEM = re.compile(r"^\s*(?:\d+[.)]|[-*])\s+\S", re.M)


def verifier_too_weak(files: TaskFiles, checks: Sequence[Check], limits: Limits) -> Iterator[Finding]:
    """Scripts that always reward, checks that hold whatever happens, and too few of them."""
    script = files.tests.get("test.sh", "")
    if _FULL_REWARD.search(script) and not _DECIDES.search(script):
        yield _weak("always-rewards", "test.sh writes a full reward whatever the tests say")
    if not checks:
        if _RUNS_PYTEST.search(script):
            yield _weak("no-checks", "test.sh runs pytest, and tests/ has no test function that can be read")
        return
    yield from _empty(checks, limits)
    yield from _existence_only(files, checks)
    yield from _optional(checks)
    yield from _too_few(files, checks, limits)


def requirements_of(instruction: str) -> int:
    """Items of the instruction's lists; 1 when it has none."""
    return max(1, len(_ITEM.findall(instruction)))


def assertions_of(checks: Sequence[Check]) -> int:
    """Assertions that can fail."""
    return sum(len(check.assertions) for check in checks if not check.is_empty)


def _empty(checks: Sequence[Check], limits: Limits) -> Iterator[Finding]:
    empty = [check for check in checks if check.is_empty]
    if empty:
        hard = len(empty) > limits.empty_checks_max_share * len(checks)
        message = f"{len(empty)} of {len(checks)} checks hold whatever the agent does, {empty[0].where} first"
        yield _weak("empty-check", message, hard)


def _existence_only(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    told = [check for check in checks if not check.is_empty]
    if told and all(check.is_existence for check in told) and _WRITES.search(files.solution_text):
        yield _weak("existence-only", "the solution writes contents, and every check asks for existence alone")


def _optional(checks: Sequence[Check]) -> Iterator[Finding]:
    for check in checks:
        if check.assertions and all(assertion.optional for assertion in check.assertions):
            message = f"{check.where}: every assertion stands in a condition or a try, and may never be asked"
            yield _weak("optional-check", message, all(_is_optional(other) for other in checks))


def _is_optional(check: Check) -> bool:
    return all(assertion.optional for assertion in check.assertions)


def _too_few(files: TaskFiles, checks: Sequence[Check], limits: Limits) -> Iterator[Finding]:
    asked, asserted = requirements_of(files.instruction), assertions_of(checks)
    if asserted and asserted < asked:
        message = f"the instruction lists {asked} requirements, and {asserted} assertions stand against them"
        yield _weak("too-few-checks", message, asserted < limits.assertions_min_per_requirement * asked)
    if len(checks) < limits.checks_min:
        yield _weak("too-few-checks", f"{len(checks)} checks, at least {limits.checks_min} wanted")


def _weak(kind: str, message: str, hard: bool = True) -> Finding:
    return Finding("verifier_too_weak", kind, message, hard)
