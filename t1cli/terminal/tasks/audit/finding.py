"""What a machine saw in a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rejection = Literal["hidden_requirements", "test_leakage", "solution_shortcuts", "verifier_too_weak"]
REJECTIONS: tuple[Rejection, ...] = (
    "hidden_requirements",
    "test_leakage",
    "solution_shortcuts",
    "verifier_too_weak",
)
"""The four hard rejections of the T1 report, section 2."""


@dataclass(frozen=True)
class Finding:
    """One thing that speaks against a task."""

    rejection: Rejection
    """Which of the four it belongs to."""
    kind: str
    """Short and machine-readable, for example `oracle-reads-tests`."""
    message: str
    hard: bool = True
    """Whether it rejects the task by itself; otherwise it is a doubt, which a judge is told of."""
