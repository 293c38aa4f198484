"""What preflight answers: one result per check, five states."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

FORMAT_VERSION = 1

Status = Literal["pass", "warn", "fail", "skipped", "crashed"]


@dataclass(frozen=True)
class NodeResult:
    """What a check saw on one node of a cluster."""

    node: str
    status: Status
    found: str


@dataclass(frozen=True)
class CheckResult:
    """What one check saw."""

    id: str
    """Dotted name of the check, for example `host.file_descriptors`."""
    catalogue: tuple[str, ...]
    """Catalogue IDs that the check catches."""
    status: Status
    found: str
    wanted: str
    fix: str
    seconds: float = 0.0
    age_seconds: float | None = None
    """How old a kept answer is; null for one of now."""
    nodes: tuple[NodeResult, ...] = ()
    """One per node for a check that asks every node of a cluster."""

    @property
    def refuses(self) -> bool:
        """Whether a launch stops at it."""
        return self.status in ("fail", "crashed")


@dataclass(frozen=True)
class PreflightReport:
    """All results of one preflight."""

    name: str
    digest: str
    checks: tuple[CheckResult, ...]

    @property
    def ready(self) -> bool:
        """No check failed and none crashed."""
        return not any(check.refuses for check in self.checks)

    @property
    def warned(self) -> bool:
        """Whether any check warned; `--strict` takes that for a failure."""
        return any(check.status == "warn" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, "ready": self.ready, **asdict(self)}
