"""`t1 calibrate` as text: what moved, every reading before and after, and what held-back readings say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from t1cli.errors import ExitCode
from t1cli.plan.calibrate import Calibration
from t1cli.spec.command_line import command_line, with_settings
from t1cli.ui.console import answer
from t1cli.ui.wrapped import wrapped

WIDEST = 100
FIGURES = 26
"""Columns of a reading's three figures."""


def print_calibration(
    found: Calibration, *, output: Path | None, spec: str, exit_code: ExitCode, overrides: Sequence[str] = ()
) -> None:
    """The whole answer on stdout; `spec` is what the next command plans."""
    width = min(answer().width, WIDEST)
    for line in calibration_lines(
        found, output=output, spec=spec, width=width, exit_code=exit_code, overrides=overrides
    ):
        answer().print(Text(line))


def calibration_lines(
    found: Calibration,
    *,
    output: Path | None,
    spec: str,
    width: int,
    exit_code: ExitCode,
    overrides: Sequence[str] = (),
) -> Iterator[str]:
    """Lines of at most `width` columns, except paths that cannot be broken."""
    head = (
        f"{found.num_readings} readings, {len(found.compared)} compared (the highest of each instrument and stage) "
        f"with the plan of the {found.role}"
    )
    yield from wrapped(head, width)
    yield ""
    yield from _changes(found)
    yield ""
    yield from _readings(found, width)
    yield ""
    yield from wrapped(_held_back(found), width)
    if output is not None:
        yield f"written: {output}"
        settings = with_settings(overrides, [f"trainer.memory_overlay={output}"])
        yield f"Next: `{command_line('plan', spec, overrides=settings)}`"
    elif found.accepted and found.changes:
        yield "Next: the same command with `--output OVERLAY.json`"
    yield f"{f'exit {int(exit_code)}':>{width}}"


def _changes(found: Calibration) -> Iterator[str]:
    if not found.changes:
        yield "  no coefficient moved: the readings agree with the defaults"
        return
    yield f"  {'coefficient':<26}{'default':>9}{'fitted':>9}"
    for change in found.changes:
        yield f"  {change.name:<26}{change.before:>9.3f}{change.after:>9.3f}"


def _readings(found: Calibration, width: int) -> Iterator[str]:
    room = width - FIGURES - 2
    yield f"  {'GiB read; error before and after the fit':<{room}}{'read':>8}{'before':>9}{'after':>9}"
    for item in found.compared:
        figures = f"{item.measured_gib:>8.2f}{item.error_before_gib:>+9.2f}{item.error_after_gib:>+9.2f}"
        label = item.label if len(item.label) <= room else f"{item.label[:20]}…{item.label[21 - room :]}"
        yield f"  {label:<{room}}{figures}"


def _held_back(found: Calibration) -> str:
    after, before = found.held_out_after_gib, found.held_out_before_gib
    if after is None:
        return f"error {before:.2f} GiB before; one reading leaves nothing to hold back, so the fit is unproven"
    verdict = "" if found.accepted else ". Worse: the fit is not used; the log, the spec or the role may not match"
    moved = f"mean error {before:.2f} GiB before, {after:.2f} with fits that did not see them"
    return f"readings held back: {moved}{verdict}"
