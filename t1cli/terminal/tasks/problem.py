"""What is wrong with a task, by kind; made where it is seen, so that no kind has to be guessed from a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NOT_KNOWN: Final = frozenset({"no-sandbox", "sandbox-lost", "not-graded"})
"""Kinds that say nothing of the task: the machinery around it failed."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a task, or with running it."""

    kind: str
    """Short and machine-readable, for example `verifier-online`."""
    message: str
    fatal: bool = True
    """Whether the task must not be trained on; a warning otherwise."""

    @property
    def of_machinery(self) -> bool:
        """Whether the task itself may be as good as any: it has to be run again."""
        return self.kind in NOT_KNOWN
