"""What a dynamic filter answers, and the count of what it dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass
class DynamicFilterOutput:
    keep: bool
    reason: str | None = None


class MetricGatherer:
    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def collect(self) -> dict[str, Any]:
        return {f"rollout/dynamic_filter/drop_{reason}": count for reason, count in self.reasons.items()}
