"""The one way in which grading fails: an infrastructure outcome, never reward 0."""

from __future__ import annotations


class VerifierError(Exception):
    """The verifier broke, was tampered with or ran out of time; nothing is known about the trial."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        """Short and machine-readable, for example `verifier_timeout`."""
        self.detail = detail
