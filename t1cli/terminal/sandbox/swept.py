"""What a sweep of dead owners' sandboxes has ended, and what it could not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Swept:
    """The result of one sweep of one directory."""

    names: tuple[str, ...] = ()
    """Sandboxes of which nothing is left."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Sandbox to why it is still there; it stays on record, and a next sweep tries again."""

    def names_told(self) -> tuple[str, ...]:
        """The names, for a caller that goes on anyway: what failed is a warning in the log."""
        for name, reason in self.failed.items():
            _LOG.warning("the sandbox %s of a dead owner is still there: %s", name, reason)
        return self.names
