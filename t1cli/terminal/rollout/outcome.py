"""The closed list of ways in which a trial ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Boundary(StrEnum):
    """Who a failure belongs to."""

    POLICY = "policy"
    PROVIDER = "provider"
    SANDBOX = "sandbox"
    HARNESS = "harness"
    VERIFIER = "verifier"
    BUDGET = "budget"
    CANCELLED = "cancelled"


class StopReason(StrEnum):
    """Why the agent loop ended."""

    DONE = "done"
    """The policy said it had finished."""
    TURNS = "turns"
    """The turn budget was used up."""
    CONTEXT = "context"
    """The context wall was reached."""
    REPLY_CUT = "reply_cut"
    """A reply ran into its token limit."""
    MALFORMED = "malformed"
    """Too many replies in a row that could not be read."""
    WALL = "wall"
    """The trial's wall time was used up."""
    FAILED = "failed"
    """Infrastructure failed; see the outcome."""

    @property
    def truncated(self) -> bool:
        """Whether a budget ended the trial rather than the policy."""
        return self in (StopReason.TURNS, StopReason.CONTEXT, StopReason.REPLY_CUT, StopReason.WALL)


@dataclass(frozen=True)
class Outcome:
    """How a trial ended: scored, or a failure with a boundary."""

    scored: bool
    stop: StopReason
    boundary: Boundary | None = None
    """None when scored."""
    cause: str = ""
    """Short machine-readable cause of a failure, for example `sandbox_create`."""
    detail: str = ""

    @property
    def trainable(self) -> bool:
        """Only what the policy itself did is trained on."""
        return self.scored
