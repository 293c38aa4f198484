"""`t1 explain` as text: one failure mode after another, or the list of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from t1cli.catalogue.catcher import Catcher
from t1cli.catalogue.entry import Entry
from t1cli.catalogue.explain import Explained
from t1cli.ui.console import answer
from t1cli.ui.wrapped import wrapped

_LABEL, _WIDTH = 12, 80


def print_explained_modes(found: Sequence[Explained]) -> None:
    """Each failure mode: what is seen, why, who catches it, what to do, which tests prove it."""
    for number, item in enumerate(found):
        if number:
            answer().print()
        _print_mode(item)


def print_modes(entries: Iterable[Entry]) -> None:
    """One line per failure mode under its family."""
    family = ""
    for entry in entries:
        if entry.family != family:
            family = entry.family
            answer().print(family)
        answer().print(f"  {entry.id:<4}{entry.title}")
    answer().print("Next: `t1 explain ID`")


def _print_mode(item: Explained) -> None:
    entry = item.entry
    answer().print(f"{entry.id}  {entry.title}")
    _print_field("you see", entry.symptom)
    _print_field("taken for", entry.first_guess)
    _print_field("why", entry.mechanism)
    for catcher in item.catchers:
        _print_catcher(catcher)
    _print_field("fix", entry.fix)
    _print_field("tests", f"{len(item.tests)}, such as {item.tests[0]}" if item.tests else "in a checkout of t1")
    _print_field("seen in", entry.source)
    if entry.example:
        answer().print(f"  {'see it':<{_LABEL}}t1 plan {entry.example}")


def _print_catcher(catcher: Catcher) -> None:
    _print_field(catcher.stage, f"{catcher.kind} {catcher.name}")
    for text in catcher.says:
        _print_field("", f"“{text}”" if catcher.kind != "code" else text)
    if catcher.fix:
        _print_field("", f"→ {catcher.fix}")


def _print_field(label: str, text: str) -> None:
    lines = wrapped(text, _WIDTH - _LABEL - 2)
    for number, line in enumerate(lines):
        answer().print(f"  {label if number == 0 else '':<{_LABEL}}{line}")
