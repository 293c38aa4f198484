"""A row of metrics, and the protocol of everything that yields rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Row:
    """Values logged together at one step of one axis."""

    step: int
    """The rollout id, also for rows of the train axis (train/step // steps per rollout)."""
    values: Mapping[str, float]
    """Metric name to value; NaN stays NaN."""
    time: float | None = None
    """Seconds since the epoch, when the source knows it."""


class Source(Protocol):
    """A finished or growing stream of rows."""

    def poll(self) -> tuple[Row, ...]:
        """Rows that appeared since the last call. Raises CouldNotAsk when the source cannot be read (blind)."""
        ...

    @property
    def finished(self) -> bool:
        """Whether no further row can come."""
        ...
