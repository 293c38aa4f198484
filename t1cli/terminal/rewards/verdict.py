"""What grading a trial found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CtrfState = Literal["ok", "empty", "missing", "corrupt", "stale", "disagree"]


@dataclass(frozen=True)
class Verdict:
    """What the verifier said about one trial."""

    solved: bool
    """The verifier's own pass/fail (reward.txt)."""
    ctrf: CtrfState
    passed: int
    """Passed tests of a usable report, else 0."""
    total: int
    """Tests that count in a usable report, else 0."""
    expected: int | None
    """Tests that the oracle's run reports."""
    seconds: float
    planted: bool = False
    """A report lay in the log directory before the verifier had run; it was removed unread."""
    processes_ended: int = 0
    """Processes that the agent had left running."""


@dataclass(frozen=True)
class RewardResult:
    """The reward and how it came about."""

    value: float
    source: Literal["ctrf", "fallback", "binary"]
    accuracy: float
    """Share of expected tests that passed, 0 to 1; for reports, not for the reward."""
    binary: float
    """The binary score, always recorded beside the dense one."""
