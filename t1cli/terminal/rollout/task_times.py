"""How long trials of a task take, measured in earlier rollouts, so that what takes longest starts first.

(catalogue S9)
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from t1cli.records import append_line, read_lines
from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.tasks.task import Task

_WAITING: Final = ("queue", "verifier_queue")
"""Parts of a trial that say nothing about its task."""


@dataclass(frozen=True)
class Measured:
    """What one rollout says about one task."""

    seconds: float
    whole: bool
    """False: only trials that were cut off, so it takes longer than this."""


class TaskTimes:
    """The latest measurement of every task, kept in one file of one line per rollout."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}
        for line in _lines(path):
            self._take({name: Measured(float(s), bool(whole)) for name, (s, whole) in line.items()})

    def note(self, rollout_id: int, trials: Iterable[TrialResult]) -> None:
        """Take over and write down what a rollout measured."""
        measured = measured_in(trials)
        self._take(measured)
        found = {name: [one.seconds, one.whole] for name, one in measured.items()}
        append_line(self._path, {"rollout": rollout_id, "seconds": found})

    def longest_first(self, drawn: Sequence[Task], pool: Sequence[Task]) -> tuple[int, ...]:
        """Indexes of `drawn`, what is expected to take longest first, equals as they were drawn.

        A task without a measurement is expected to take as long as others of its family and difficulty, else of its
        family, else of the pool.
        """
        expected = expected_seconds(drawn, pool, self._seconds)
        return tuple(sorted(range(len(drawn)), key=lambda index: -expected[index]))

    def _take(self, measured: Mapping[str, Measured]) -> None:
        for name, one in measured.items():
            self._seconds[name] = one.seconds if one.whole else max(one.seconds, self._seconds.get(name, 0.0))


def measured_in(trials: Iterable[TrialResult]) -> dict[str, Measured]:
    """By task: the mean of its scored trials, else the longest of those that were cut off."""
    scored, cut = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for trial in trials:
        seconds = sum(value for part, value in trial.seconds.items() if part not in _WAITING)
        if trial.outcome.scored:
            scored[trial.plan.task.name].append(seconds)
        elif trial.outcome.boundary is Boundary.CANCELLED and seconds:
            cut[trial.plan.task.name].append(seconds)
    found = {name: Measured(max(values), False) for name, values in cut.items()}
    return found | {name: Measured(statistics.fmean(values), True) for name, values in scored.items()}


def expected_seconds(drawn: Sequence[Task], pool: Sequence[Task], measured: Mapping[str, float]) -> list[float]:
    """One per drawn task; 0 for all when nothing was measured."""
    of_bucket = defaultdict[tuple[str, ...], list[float]](list)
    for task in pool:
        if task.name in measured:
            for bucket in _buckets(task):
                of_bucket[bucket].append(measured[task.name])
    means = {bucket: statistics.fmean(values) for bucket, values in of_bucket.items()}
    return [
        measured.get(task.name, next((means[bucket] for bucket in _buckets(task) if bucket in means), 0.0))
        for task in drawn
    ]


def _buckets(task: Task) -> tuple[tuple[str, ...], ...]:
    """From the narrowest to the whole pool."""
    return (task.family, task.difficulty), (task.family,), ()


def _lines(path: Path) -> list[dict[str, list[float]]]:
    found = []
    for line in read_lines(path):
        try:
            seconds = line["seconds"].items()
            found.append({str(name): [float(value), float(whole)] for name, (value, whole) in seconds})
        except (AttributeError, ValueError, KeyError, TypeError):
            continue
    return found
