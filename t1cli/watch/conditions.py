"""Evaluation of one condition on a history: yes, no, or no verdict yet."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from t1cli.errors import BadInput
from t1cli.watch.expression import VARIABLES, Absent, Context, evaluate, variables_of
from t1cli.watch.history import History, Series
from t1cli.watch.rule import Condition, Pack

OVERDUE_CADENCES = 3
"""A metric is absent when it has been silent for this many of its own cadences."""


@dataclass(frozen=True)
class Judgement:
    """What one condition says now."""

    breach: bool | None
    """None while there is no verdict: too few points, a missing metric, or NaN."""
    value: float | None
    threshold: float | None
    note: str = ""
    """Why there is no verdict."""
    base: float | None = None
    """The baseline that was used."""


class Judge:
    """Evaluates conditions with the variables of a spec, other runs, and an explicit scale for windows."""

    def __init__(
        self,
        variables: Mapping[str, float],
        window_scale: float = 1.0,
        other_runs: Mapping[str, History] | None = None,
    ) -> None:
        self._variables = variables
        self._scale = window_scale
        self._other_runs = other_runs or {}

    def judge(
        self, condition: Condition, history: History, *, frozen: float | None = None, instead: float | str | None = None
    ) -> Judgement:
        """Evaluate now. `frozen` replaces the baseline, `instead` the threshold (to recover)."""
        if condition.absent:
            return self._absent(condition, history)
        series = history.get(condition.point_of)
        if series is None or not series.values:
            return Judgement(None, None, None, "not logged yet")
        last = series.values[-1]
        if condition.finite:
            return Judgement(not math.isfinite(last), last, None)
        if not math.isfinite(last):
            return Judgement(None, last, None, "not finite")
        window = self.scaled(condition.window)
        needed = max(window, self.scaled(condition.min_points) if condition.min_points else 0)
        if len(series.finite) < needed:
            return Judgement(None, None, None, self._warming(condition, series))
        value = aggregate(series.finite[-window:], condition.aggregate)
        base = frozen if frozen is not None else self._baseline(condition, series, history.last_step)
        if condition.baseline is not None and base is None:
            return Judgement(None, value, None, self._warming(condition, series))
        return self._compare(condition, value, base, instead)

    def scaled(self, points: int) -> int:
        """A window or baseline after scaling, at least 1 (at least 2 where it was more than 1)."""
        return max(min(points, 2), math.ceil(points * self._scale))

    def number(self, written: float | str) -> float:
        """A threshold: a number, or an expression over variables. Raises Absent while a variable is not known."""
        return evaluate(written, Context(self._variables)) if isinstance(written, str) else float(written)

    def _absent(self, condition: Condition, history: History) -> Judgement:
        silent = history.frames_since(condition.point_of)
        if history.frame + 1 < max(condition.min_points, OVERDUE_CADENCES):
            return Judgement(None, None, None, f"warming: {history.frame + 1} of {condition.min_points} steps")
        if silent is None:
            return Judgement(True, float(history.frame + 1), 0.0, "never logged")
        series = history.get(condition.point_of)
        limit = OVERDUE_CADENCES * (series.cadence if series else 1.0)
        return Judgement(silent > limit, float(silent), limit)

    def _compare(
        self, condition: Condition, value: float, base: float | None, instead: float | str | None
    ) -> Judgement:
        up = condition.above is not None
        written = instead if instead is not None else condition.above if up else condition.below
        assert written is not None
        try:
            threshold = self.number(written) * (1.0 if base is None else base)
        except Absent as missing:
            return Judgement(None, value, None, str(missing))
        return Judgement(value > threshold if up else value < threshold, value, threshold, base=base)

    def _baseline(self, condition: Condition, series: Series, step: int) -> float | None:
        wanted = condition.baseline
        if wanted is None:
            return None
        points = self.scaled(wanted.points)
        if wanted.of == "first":
            skip = self.scaled(wanted.skip) if wanted.skip else 0
            taken = series.finite[skip : skip + points]
        elif wanted.of == "prior":
            before = len(series.finite) - self.scaled(condition.window)
            taken = series.finite[max(0, before - points) : max(0, before)]
        elif wanted.of == "run":
            other = self._other_runs[wanted.run].get(condition.metric) if wanted.run in self._other_runs else None
            taken = other.up_to(step, points) if other is not None else []
        else:
            return series.best_mean(points)
        return aggregate(taken, wanted.statistic) if len(taken) == points else None

    def _warming(self, condition: Condition, series: Series) -> str:
        """How many points there are and how many a verdict needs, window and baseline together."""
        wanted, window = condition.baseline, self.scaled(condition.window)
        needed = max(window, self.scaled(condition.min_points) if condition.min_points else 0)
        if wanted is not None and wanted.of == "run" and len(series.finite) >= needed:
            return f"no baseline in {wanted.run}"
        if wanted is not None and wanted.of != "run":
            skip = self.scaled(wanted.skip) if wanted.skip else 0
            needed = max(needed, self.scaled(wanted.points) + skip + (window if wanted.of == "prior" else 0))
        return f"warming: {len(series.finite)} of {needed} points"


def check_variables(packs: tuple[Pack, ...], variables: Mapping[str, float]) -> None:
    """Raise BadInput for a threshold or expression with a variable that no spec and no option can give."""
    known = {*VARIABLES, *variables}
    for pack in packs:
        texts = {text for rule in pack.rules for text in _thresholds(rule)}
        texts |= {text for diagnosis in pack.diagnoses for sign in diagnosis.signs for text in _thresholds(sign)}
        texts |= {derived.expression for derived in pack.derived.values()}
        for text in sorted(texts):
            unknown = variables_of(text) - known
            if unknown:
                raise BadInput(
                    f"unknown variable {', '.join(sorted(unknown))} in {text!r}",
                    hint="known: " + ", ".join(sorted(known)) + "; `--set NAME=NUMBER` adds one",
                )


def _thresholds(condition: Condition) -> list[str]:
    return [written for written in (condition.above, condition.below) if isinstance(written, str)]


def aggregate(values: list[float], how: str) -> float:
    """One number of a non-empty window."""
    match how:
        case "mean":
            return math.fsum(values) / len(values)
        case "median":
            return statistics.median(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "std":
            return statistics.pstdev(values)
        case "p10" | "p90":
            return _quantile(values, 0.1 if how == "p10" else 0.9)
        case "slope":
            return _slope(values)
        case "count":
            return float(len(values))
        case "frac_true":
            return sum(value != 0 for value in values) / len(values)
        case _:
            return values[-1]


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _slope(values: list[float]) -> float:
    """Least squares, per point."""
    if len(values) < 2:
        return 0.0
    middle, mean = (len(values) - 1) / 2, math.fsum(values) / len(values)
    spread = math.fsum((i - middle) ** 2 for i in range(len(values)))
    return math.fsum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread
