"""Evaluation of one condition on a history: yes, no, or no verdict yet."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from t1cli.errors import BadInput
from t1cli.watch.history import History
from t1cli.watch.rule import Baseline, Condition


@dataclass(frozen=True)
class Judgement:
    """What one condition says now."""

    breach: bool | None
    """None while there is no verdict: too few points, a missing metric, or NaN."""
    value: float | None
    threshold: float | None
    note: str = ""
    """Why there is no verdict."""


class Judge:
    """Evaluates conditions with the variables of a spec and an explicit scale for windows."""

    def __init__(self, variables: Mapping[str, float], window_scale: float = 1.0) -> None:
        self._variables = variables
        self._scale = window_scale

    def judge(self, condition: Condition, history: History, *, frozen: float | None = None) -> Judgement:
        """Evaluate now. `frozen` replaces the baseline while a rule is pending or firing."""
        series = history.get(condition.metric)
        if series is None or not series.values:
            return Judgement(None, None, None, f"{condition.metric} not seen")
        last = series.values[-1]
        if condition.finite:
            return Judgement(not math.isfinite(last), last, None)
        if not math.isfinite(last):
            return Judgement(None, last, None, "not finite")
        window = self.scaled(condition.window)
        values = [value for value in series.values if math.isfinite(value)]
        if len(values) < window:
            return Judgement(None, None, None, f"warming ({len(values)}/{window})")
        value = aggregate(values[-window:], condition.aggregate)
        base = frozen if frozen is not None else self.baseline_of(condition, values)
        if condition.baseline is not None and base is None:
            needed = window + self.scaled(condition.baseline.points)
            return Judgement(None, value, None, f"warming ({len(values)}/{needed})")
        return self._compare(condition, value, base)

    def baseline_of(self, condition: Condition, values: list[float]) -> float | None:
        """The baseline number, or None without a baseline or before it is full."""
        if condition.baseline is None:
            return None
        return _baseline(
            condition.baseline, values, self.scaled(condition.window), self.scaled(condition.baseline.points)
        )

    def scaled(self, points: int) -> int:
        """A window or baseline after scaling, at least 1 (at least 2 where it was more than 1)."""
        return max(min(points, 2), math.ceil(points * self._scale))

    def _compare(self, condition: Condition, value: float, base: float | None) -> Judgement:
        factor = 1.0 if base is None else base
        if condition.above is not None:
            threshold = self.number(condition.above) * factor
            return Judgement(value > threshold, value, threshold)
        threshold = self.number(condition.below if condition.below is not None else 0.0) * factor
        return Judgement(value < threshold, value, threshold)

    def number(self, written: float | str) -> float:
        """A threshold: a number, `variable`, or `variable * factor`. Raises BadInput for an unknown variable."""
        if not isinstance(written, str):
            return float(written)
        match = re.fullmatch(r"\s*([a-z_]+)\s*(?:\*\s*([0-9.eE+-]+))?\s*", written)
        if match is None or match[1] not in self._variables:
            raise BadInput(
                f"cannot read the threshold {written!r}",
                hint="write a number, or one of " + ", ".join(sorted(self._variables)) + " with an optional `* factor`",
            )
        return self._variables[match[1]] * float(match[2] or 1.0)


def aggregate(values: list[float], how: str) -> float:
    """One number of a non-empty window."""
    match how:
        case "mean":
            return statistics.fmean(values)
        case "median":
            return statistics.median(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "std":
            return statistics.pstdev(values)
        case _:
            return values[-1]


def _baseline(baseline: Baseline, values: list[float], window: int, points: int) -> float | None:
    if baseline.of == "first":
        return aggregate(values[:points], baseline.statistic) if len(values) >= points else None
    if baseline.of == "prior":
        before = values[:-window]
        return aggregate(before[-points:], baseline.statistic) if len(before) >= points else None
    if len(values) < points:
        return None
    return max(statistics.fmean(values[i : i + points]) for i in range(len(values) - points + 1))
