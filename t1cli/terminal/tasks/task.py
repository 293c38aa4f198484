"""One terminal task, whatever layout it came in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """What the agent is asked, and where its tests and solution lie."""

    name: str
    path: Path
    instruction: str
    family: str
    difficulty: str
    agent_timeout_seconds: float | None
    """The budget the task declares for the agent; None means it declares none."""
    verifier_timeout_seconds: float
    expected_tests: int | None
    """Tests that the oracle's run reports; None when unknown."""
    environment: Path | None = None
    """Directory whose files are placed in `/work` before the agent starts; None for none."""
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def tests(self) -> Path:
        """Directory placed at `/tests` after the agent has stopped."""
        return self.path / "tests"

    @property
    def solution(self) -> Path:
        return self.path / "solution"
