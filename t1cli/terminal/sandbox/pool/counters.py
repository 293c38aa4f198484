"""Prometheus' text format over a handful of counters and gauges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

WAIT_BUCKETS_SECONDS = (0.01, 0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)


class Counters:
    """What has happened since the server started."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self._waits: Counter[float] = Counter()
        self._wait_sum_seconds = 0.0
        self._wait_count = 0

    def add(self, name: str, count: int = 1) -> None:
        """Count something; the name may carry labels, `rejected_total{code="QUEUE_FULL"}`."""
        self.totals[name] += count

    def waited(self, seconds: float) -> None:
        """A granted request's time in the line."""
        self._wait_sum_seconds += seconds
        self._wait_count += 1
        for bucket in WAIT_BUCKETS_SECONDS:
            self._waits[bucket] += seconds <= bucket

    def text(self, gauges: Mapping[str, float]) -> str:
        """The whole page."""
        lines: list[str] = []
        for name, value in sorted(gauges.items()):
            lines += [f"# TYPE t1_pool_{name} gauge", f"t1_pool_{name} {value:g}"]
        typed: set[str] = set()
        for name, count in sorted(self.totals.items()):
            family = name.partition("{")[0]
            if family not in typed:
                typed.add(family)
                lines.append(f"# TYPE t1_pool_{family} counter")
            lines.append(f"t1_pool_{name} {count}")
        lines.append("# TYPE t1_pool_wait_seconds histogram")
        lines += [f't1_pool_wait_seconds_bucket{{le="{b:g}"}} {self._waits[b]}' for b in WAIT_BUCKETS_SECONDS]
        lines.append(f't1_pool_wait_seconds_bucket{{le="+Inf"}} {self._wait_count}')
        lines += [
            f"t1_pool_wait_seconds_sum {self._wait_sum_seconds:g}",
            f"t1_pool_wait_seconds_count {self._wait_count}",
        ]
        return "\n".join(lines) + "\n"
