"""`t1 plan --plot`: the terms alive in every phase of every stage as bars of letters, plain text of 80 columns."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping

from rich.text import Text

from t1cli.plan.binding import OVERHEAD, STATES
from t1cli.plan.plan import Plan, StageMemory
from t1cli.ui.console import answer
from t1cli.ui.wrapped import wrapped

WIDTH = 80
BAR = 40
"""Columns of the longest bar or of the card, whichever is more."""
PHASE = 22
OTHER = "+"
"""The sign of terms too small to be drawn one by one."""
SMALL_GIB = 0.5


def print_plot(plan: Plan) -> None:
    """The plot on stdout."""
    for line in plot_lines(plan):
        answer().print(Text(line))


def plot_lines(plan: Plan) -> Iterator[str]:
    """Lines of at most 80 columns: a bar for every role, stage and phase, `|` where a GPU ends, then the letters."""
    memory = plan.memory
    if not memory.roles:
        yield f"{plan.name}: nothing to plot; " + (
            "the embedded engine uses no GPU memory" if plan.engine == "embedded" else "the layout does not exist"
        )
        return
    stages = [stage for role in memory.roles.values() for stage in role.stages]
    letters = _letters(stages)
    most = max(memory.usable_gib, *(phase.peak_gib for stage in stages for phase in stage.phases))
    scale = BAR / most
    yield f"{plan.name}   GiB per GPU by phase; | is the card's {memory.usable_gib:g} GiB"[:WIDTH]
    for role, found in memory.roles.items():
        for stage in found.stages:
            yield ""
            yield f"{role}, stage {stage.stage}"
            yield from _bars(stage, letters, scale, round(memory.usable_gib * scale))
    yield ""
    yield from _legend(letters)


def _letters(stages: list[StageMemory]) -> dict[str, str]:
    """A letter for every term that is ever large enough, its own first if free; states first, overhead last."""
    largest: dict[str, float] = {}
    for stage in stages:
        for phase in stage.phases:
            for name, gib in phase.terms.items():
                largest[name] = max(gib, largest.get(name, 0.0))
    names = [name for name in largest if largest[name] >= SMALL_GIB]
    names.sort(key=lambda name: (name in OVERHEAD, name not in STATES))
    letters: dict[str, str] = {}
    for name in names:
        wished = [*name.upper(), *string.ascii_uppercase, *string.digits]
        free = (sign for sign in wished if sign.isalnum() and sign not in letters.values())
        letters[name] = next(free, OTHER)
    return letters


def _bars(stage: StageMemory, letters: Mapping[str, str], scale: float, card: int) -> Iterator[str]:
    for phase in stage.phases:
        bar = _bar(phase.terms, letters, scale)
        cells = list(bar.ljust(card + 1))
        if len(bar) <= card:
            cells[card] = "|"
        else:
            cells.insert(card, "|")
        mark = " <" if phase.name == stage.phase else ""
        name = phase.name[:PHASE]
        yield f"  {name:<{PHASE}} {phase.peak_gib:>6.1f} {''.join(cells)}{mark}".rstrip()


def _bar(terms: Mapping[str, float], letters: Mapping[str, str], scale: float) -> str:
    """Each term as long as its share; rounding is carried on, so that the bar is as long as the peak."""
    drawn, so_far = "", 0.0
    for name, letter in letters.items():
        so_far += terms.get(name, 0.0)
        drawn += letter * (round(so_far * scale) - len(drawn))
    so_far += sum(gib for name, gib in terms.items() if name not in letters)
    return drawn + OTHER * (round(so_far * scale) - len(drawn))


def _legend(letters: Mapping[str, str]) -> Iterator[str]:
    text = ", ".join(f"{letter} {name}" for name, letter in letters.items() if letter != OTHER)
    text = f"{text}, {OTHER} smaller terms; < is the worst phase of a stage"
    yield from wrapped(text, WIDTH)
