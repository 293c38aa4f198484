"""`--watch`: preflight again and again until nothing refuses, telling only what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable

from t1cli.preflight.report import CheckResult, PreflightReport

Changed = Callable[[CheckResult], None]


def until_green(
    ask: Callable[[], PreflightReport],
    *,
    every_seconds: float,
    is_green: Callable[[PreflightReport], bool],
    changed: Changed,
    sleep: Callable[[float], None] = time.sleep,
) -> PreflightReport:
    """The first report that is green. `ask` makes one; `changed` is told each result whose state is another now."""
    report = ask()
    while not is_green(report):
        sleep(every_seconds)
        before = {check.id: check.status for check in report.checks}
        report = ask()
        for check in report.checks:
            if before.get(check.id) != check.status:
                changed(check)
    return report
