"""Preflight results as lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from t1cli.plan.plan import Plan
from t1cli.preflight.check import NOT_A_NODE
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.ui.console import answer
from t1cli.ui.counted import counted

MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "skipped": "-", "crashed": "?"}
STYLES = {"pass": "green", "warn": "yellow", "fail": "red", "skipped": "dim", "crashed": "magenta"}


def print_check(result: CheckResult) -> None:
    """One check: mark, state in words, what was found; then what was wanted and the fix where it matters."""
    console = answer()
    console.print(f"{MARKS[result.status]} {result.status:<8}", style=STYLES[result.status], end="")
    console.print(f"{result.id:<29}{result.found}")
    if result.status in ("warn", "fail", "crashed"):
        console.print(f"  wanted: {result.wanted}")
        console.print(f"  fix:    {result.fix}")


def print_skipped(report: PreflightReport) -> None:
    """One line for all checks that were not asked, and one where that is for want of the cluster."""
    skipped = [check for check in report.checks if check.status == "skipped"]
    if skipped:
        families = Counter(check.id.split(".")[0] for check in skipped)
        told = ", ".join(f"{name} {count}" for name, count in families.items())
        answer().print(f"- skipped {counted(len(skipped), 'check')} ({told}); --all says why", style="dim")
    if unasked := sum(check.found == NOT_A_NODE for check in skipped):
        answer().print(f"! {unasked} of them could not be asked: {NOT_A_NODE}", style="yellow")


def print_summary(
    report: PreflightReport, plan: Plan, again: Callable[..., str], *, seconds: float, strict: bool = False
) -> None:
    """The counts line, what the plan refuses whatever the machine is like, and the next command.

    `again(command, *more)` is the same spec with the same options under another command.
    """
    counts = Counter[str](check.status for check in report.checks)
    said = ", ".join(f"{counts[state]} {_word(state)}" for state in MARKS if counts[state])
    console = answer()
    console.print(f"{said} in {seconds:.1f} s")
    open_ids = tuple(dict.fromkeys(finding.id for finding in plan.findings if finding.severity == "error"))
    if not plan.accepted_for_launch:
        console.print(f"the plan refuses it: {', '.join(open_ids) or plan.verdict}")
    bad = next((check for check in report.checks if check.refuses or (strict and check.status == "warn")), None)
    if bad is None and plan.accepted_for_launch and any(check.found == NOT_A_NODE for check in report.checks):
        named = ("--set", "engine.ray_address=http://HEAD:8265")
        console.print(f"Next: {again('preflight', *named)}, with the address of your cluster", soft_wrap=True)
        return
    if bad is None:
        console.print(f"Next: {again('launch' if plan.accepted_for_launch else 'plan')}", soft_wrap=True)
        return
    console.print(f"Next: {again('preflight', '--only', bad.id, *(['--strict'] if strict else []))}", soft_wrap=True)


def _word(state: str) -> str:
    return {"pass": "passed", "warn": "warned", "fail": "failed"}.get(state, state)
