"""`t1 plan --explain` and `--diff` as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from t1cli.plan.diff import Change, PlanDiff
from t1cli.plan.explain import Explained
from t1cli.ui.console import answer


def print_explained(found: Iterable[Explained]) -> None:
    """Each value with its place, and under it what it replaced, newest first."""
    for item in found:
        answer().print(f"{item.key} = {shown(item.value)}   {item.where}")
        if item.formula:
            answer().print(f"  = {item.formula}")
        for origin in item.replaced:
            answer().print(f"  replaced {shown(origin.value)}   {origin.where}")


def print_diff(diff: PlanDiff) -> None:
    """Changed values old → new with their place, then the figures that moved."""
    answer().print(f"{diff.old} → {diff.new}")
    for label, changes in (("values", diff.spec), ("figures", diff.figures)):
        if changes:
            answer().print(f"{len(changes)} {label} differ")
            _print_changes(changes)
    if not diff.spec and not diff.figures:
        answer().print("no difference")


def _print_changes(changes: tuple[Change, ...]) -> None:
    width = min(44, max(len(change.key) for change in changes))
    for change in changes:
        place = f"   {change.where}" if change.where else ""
        answer().print(f"  {change.key:<{width}}  {shown(change.old)} → {shown(change.new)}{place}")


def shown(value: Any) -> str:
    """A value as short text: floats to five digits, absence as a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.5g}"
    return str(value)
