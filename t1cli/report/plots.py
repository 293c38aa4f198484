"""Plots as small SVGs by matplotlib, with the page's own colours so that they follow light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from t1cli.watch.counting import OF_RUN
from t1cli.watch.history import Series

EMA_WEIGHT = 0.1
# Sentinel colours in the drawing, and the style of the page that takes their place.
INK, RAW, SMOOTH, ALARM, SIGN, ANCHOR = "#010203", "#010204", "#010205", "#010206", "#010207", "#010208"
COLOURS = {INK: "ink", RAW: "raw", SMOOTH: "smooth", ALARM: "alarm", SIGN: "sign", ANCHOR: "anchor"}
MOST_POINTS = 1500


@dataclass(frozen=True)
class Marks:
    """What is drawn over a curve."""

    alerts: tuple[tuple[int, str], ...] = ()
    """Step and rule."""
    spans: tuple[tuple[int, int, str], ...] = ()
    """First and last step of a diagnosis."""
    anchors: tuple[tuple[float, str], ...] = ()
    """Known values with their source."""


def ema(values: Sequence[float], weight: float = EMA_WEIGHT) -> list[float]:
    """Exponential moving average that begins at the first value."""
    found: list[float] = []
    for value in values:
        found.append(value if not found else weight * value + (1 - weight) * found[-1])
    return found


def plot(title: str, series: Series, marks: Marks) -> str:
    """One `<svg>` element."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    every = max(1, len(series.finite) // MOST_POINTS)
    steps = [OF_RUN.number(step) for step in series.finite_steps[::every]]
    values, smooth = series.finite[::every], ema(series.finite)[::every]
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "t1",
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "path.simplify": True,
        "path.simplify_threshold": 0.8,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(5.6, 2.3), layout="constrained")
        axes = figure.add_subplot()
        for first, last, _ in marks.spans:
            begin, end = OF_RUN.number(first), OF_RUN.number(last)
            axes.axvspan(begin, max(end, begin + 0.5), color=SIGN, alpha=0.15, linewidth=0)
        axes.plot(steps, values, color=RAW, linewidth=0.8)
        axes.plot(steps, smooth, color=SMOOTH, linewidth=1.6)
        for value, _ in marks.anchors:
            axes.axhline(value, color=ANCHOR, linewidth=0.8, linestyle="--")
        for step, _ in marks.alerts:
            axes.axvline(OF_RUN.number(step), color=ALARM, linewidth=1.2, linestyle=":")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
        axes.set_xlabel("rollout", color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.patch.set_alpha(0)
        figure.patch.set_alpha(0)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _for_the_page(stream.getvalue(), title)


def _for_the_page(svg: str, title: str) -> str:
    """Only the element, scalable, in the page's colours, hidden from screen readers (the caption says it)."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    # Several drawings share one page: their internal names must not meet.
    salt = re.sub(r"\W+", "_", title)
    svg = re.sub(r'(id="|#)(?=[A-Za-z])(?!01020)', rf"\g<1>{salt}-", svg)
    for colour, name in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r">\s+<", "><", svg)
    return svg.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
