"""A run's metrics with what its logs say: `log/<signature>` counts join the step in which the lines were written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from t1cli.watch.logs.classifier import LogClassifier
from t1cli.watch.logs.signatures import minute_of, signatures
from t1cli.watch.sources.source import Row, Source


class BesideLogs:
    """Rows of a metric source, each step's first one with the log counts up to its time."""

    def __init__(self, metrics: Source, logs: Path) -> None:
        self._metrics = metrics
        self._folder = logs
        self.logs: dict[Path, LogClassifier] = {}
        self._waiting: Counter[tuple[float, str]] = Counter()
        """(seconds, name) to count: lines not yet given to a step. Lines without a clock wait at 0."""
        self._names: set[str] = set()
        self._step: int | None = None

    def poll(self) -> tuple[Row, ...]:
        """New rows; the logs are read first, so that a row never comes before its lines."""
        # A pipe would be waited for, and a device never ends.
        for path in sorted(filter(Path.is_file, self._folder.glob("*.log"))) if self._folder.is_dir() else ():
            self._read(self.logs.setdefault(path, LogClassifier(path)))
        return tuple(self._with_counts(row) for row in self._metrics.poll())

    @property
    def finished(self) -> bool:
        """Whether the metrics are."""
        return self._metrics.finished

    def _read(self, log: LogClassifier) -> None:
        table = signatures()
        for hit in log.poll():
            minute = minute_of(hit.text.encode())
            name = f"log/{table[hit.signature].name}"
            self._waiting[0.0 if minute is None else minute * 60.0, name] += hit.count
            self._names.add(name)

    def _with_counts(self, row: Row) -> Row:
        if row.step == self._step or not self._names:
            return row
        self._step = row.step
        due = [key for key in self._waiting if row.time is None or key[0] <= row.time]
        counts: Counter[str] = Counter()
        for key in due:
            counts[key[1]] += self._waiting.pop(key)
        return Row(row.step, {**row.values, **{name: float(counts[name]) for name in self._names}}, row.time)
