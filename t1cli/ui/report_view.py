"""A report in the terminal: curves of block characters, for people on a login node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from t1cli.report.facts import Facts
from t1cli.report.page import SHOWN
from t1cli.ui.console import answer

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 60


def curve(values: Sequence[float], width: int = WIDTH) -> str:
    """Means of equal stretches as blocks from lowest to highest; a flat series is all lowest."""
    parts = min(width, len(values))
    means = [_mean(values[i * len(values) // parts : (i + 1) * len(values) // parts]) for i in range(parts)]
    low, high = min(means), max(means)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((mean - low) * scale)] for mean in means)


def print_curves(facts: Facts) -> None:
    """One line per metric: name, curve, first and last value; then where rules fired."""
    shown = [name for name in SHOWN if name in facts.series]
    width = max(map(len, shown), default=0)
    for name in shown:
        values = facts.series[name].finite
        answer().print(f"{name:<{width}}  {curve(values):<{WIDTH}}  {values[0]:.4g} -> {values[-1]:.4g}")
    for rule in facts.watch.rules:
        if rule.fired_at:
            answer().print(f"! {rule.severity} {rule.name} at {facts.watch.counting.one(rule.fired_at[0])}")
    answer().print(facts.watch.words)


def print_written(path: Path, size: int) -> None:
    """Where the page is."""
    answer().print(f"report: {path} ({size / 1024:.0f} KiB, opens offline)")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
