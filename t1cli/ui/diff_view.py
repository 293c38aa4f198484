"""What `t1 diff` answers as text."""

from __future__ import annotations

from t1cli.run.diff import RunDiff
from t1cli.ui.console import answer


def print_diff(diff: RunDiff) -> None:
    """One line per value, by spec, code and environment."""
    console = answer()
    console.print(f"{diff.old}  →  {diff.new}")
    for part in ("spec", "code", "environment"):
        changes = [change for change in diff.changes if change.part == part]
        if changes:
            console.print(part)
        for change in changes:
            console.print(f"  {change.key}  {_shown(change.old)} → {_shown(change.new)}  ({change.where})")
    if not diff.changes:
        console.print("nothing differs in spec, code and environment")


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)
