"""What `t1 tasks check` has seen by running a task, as part of its audit."""

from __future__ import annotations

from dataclasses import replace

from t1cli.terminal.tasks.audit.finding import Finding
from t1cli.terminal.tasks.audit.machine import MachinePart
from t1cli.terminal.tasks.check_pool import TaskCheck

_FREE = {"no-op-full": "no-op-passes", "empty-full": "empty-passes"}


def with_check(part: MachinePart, check: TaskCheck) -> MachinePart:
    """The machine's part with real results: a task solved by doing nothing or by deleting all is checked too weakly.

    Tests that a no-op passes reward nothing, so `graded` falls by their share.
    """
    free = [problem for problem in check.problems if problem.kind in _FREE]
    found = tuple(Finding("verifier_too_weak", _FREE[problem.kind], problem.message) for problem in free)
    measures = dict(part.measures)
    if "graded" in measures and check.tests:
        measures["graded"] *= max(0.0, 1.0 - check.no_op_passed / check.tests)
    return replace(part, findings=(*part.findings, *found), measures=measures)


def broken_by(check: TaskCheck) -> tuple[str, ...]:
    """Why the task cannot be trained on, but for what the audit rejects by itself."""
    return tuple(problem.message for problem in check.problems if problem.fatal and problem.kind not in _FREE)
