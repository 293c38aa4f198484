"""What a worker is told once: which environments it makes, and where their records lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from t1cli.spec.sandbox import HarborSandbox

SETTINGS: Final = "harbor.json"
"""In the directory of the records, for whoever has to clean up after a dead owner."""

_LIFETIME_OPTIONS: Final = {
    "modal": ("sandbox_timeout_secs", 1),
    "cwsandbox": ("max_lifetime_seconds", 1),
    "sail": ("max_lifetime_seconds", 1),
    "tensorlake": ("timeout_secs", 1),
    "prime": ("timeout_minutes", 60),
}
"""By environment: its option for a sandbox's lifetime, and the seconds in its unit (harbor 0.26.0).

The others have none or, like e2b and daytona, hold a short lease that Harbor renews for as long as its process lives.
"""


@dataclass(frozen=True)
class WorkerSettings:
    """One worker's environments."""

    python: str
    environment: str
    """Harbor's name, or `package.module:Class`."""
    directory: str
    """Records, logs, and a directory per live sandbox."""
    image: str
    """Image for a task that brings none."""
    create_seconds: float
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment."""

    @classmethod
    def of(cls, spec: HarborSandbox, python: str, directory: Path) -> WorkerSettings:
        """The settings of a spec's block; its lifetime reaches the provider where Harbor has an option for it."""
        name, unit = _LIFETIME_OPTIONS.get(spec.environment, ("", 1))
        lifetime = {name: max(1, int(spec.lifetime_seconds // unit))} if name else {}
        return cls(
            python=python,
            environment=spec.environment,
            directory=str(directory),
            image=spec.image,
            create_seconds=spec.create_seconds,
            options=lifetime | dict(spec.options),
        )

    def as_json(self) -> dict[str, Any]:
        """As sent to the worker, and as kept in SETTINGS."""
        return asdict(self)
