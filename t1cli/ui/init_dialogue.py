"""`t1 init` with a person: one question after another on stderr, each with an answer to be taken by Return."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from t1cli.errors import BadInput
from t1cli.first_spec.propose import Proposal
from t1cli.ui.console import answer, aside

T = TypeVar("T")


def can_ask() -> bool:
    """Whether there is a person on both sides."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, default: str, read: Callable[[str], T]) -> T:
    """The answer to one question, asked again until `read` takes it. `read` raises ValueError with what is wrong."""
    while True:
        aside().print(f"{question} [{default}] ", end="")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise BadInput("the input ended before every question was answered", hint="see t1 init --help")
        try:
            return read(line.strip() or default)
        except ValueError as problem:
            aside().print(f"  {problem}")


def print_written(proposal: Proposal, output: str) -> None:
    """Where the spec is, what the plan says of it in one line, and the next command."""
    plan = proposal.plan
    verdict = "" if plan.verdict == "NOT_APPLICABLE" else f", {plan.verdict}"
    answer().print(f"wrote {output}: {plan.title}{verdict}, {proposal.tasks.count} tasks")
    if not proposal.tasks.counts_tests:
        answer().print(
            f"  reward binary: {proposal.tasks.count - proposal.tasks.counted} of {proposal.tasks.count} tasks do not "
            "report test by test (CTRF)"
        )
    for finding in plan.findings:
        if finding.severity == "error":
            answer().print(f"  still open, {finding.id}: {finding.message}")
    answer().print(f"Next: t1 preflight {output}")
