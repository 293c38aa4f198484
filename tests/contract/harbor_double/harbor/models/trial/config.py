"""The environment of a trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class EnvironmentConfig:
    type: str | None = None
    import_path: str | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
