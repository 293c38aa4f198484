"""The table of runs, and log lines as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from t1cli.run.summary import RunSummary
from t1cli.ui.console import answer
from t1cli.ui.moment import moment

_HEADINGS = ("run", "attempt", "state", "rollouts", "reward", "began", "resumed")


def print_runs(summaries: Sequence[RunSummary], root: Path) -> None:
    """One line per attempt, columns aligned."""
    console = answer()
    if not summaries:
        console.print(f"no runs in {root}")
        console.print("Next: t1 launch SPEC")
        return
    rows = [_HEADINGS, *(_row(summary) for summary in summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        console.print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_line(line: str) -> None:
    """One line of a log, unwrapped and without interpretation."""
    answer().print(line, soft_wrap=True)


def _row(summary: RunSummary) -> tuple[str, ...]:
    planned = "?" if summary.rollouts_planned is None else str(summary.rollouts_planned)
    return (
        summary.name,
        str(summary.attempt),
        str(summary.state),
        f"{summary.rollouts_done}/{planned}",
        "-" if summary.reward.last is None else f"{summary.reward.last:.3f}",
        moment(summary.began),
        f"{len(summary.resumed)}×, last {moment(summary.resumed[-1].at)}" if summary.resumed else "-",
    )
