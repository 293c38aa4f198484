"""Reading CTRF reports of every reporter and version seen in task pools.

Counts come from `tests[]`; the summary is used only when there is no such list. Whatever is in the file, reading it
never raises: an unusable report is a state, and the reward falls back to the verifier's own pass/fail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MAX_BYTES = 8 * 1024 * 1024
"""A larger report is corrupt."""

_CLOCK_SLACK_SECONDS = 2.0
_LATEST = 1e18
"""No clock has counted so far, in whatever unit."""
_MILLISECONDS_FROM = 1e11
"""pytest-json-ctrf 0.3.5 writes seconds, everything newer milliseconds; no time in seconds is this large."""


@dataclass(frozen=True)
class CtrfReport:
    """What a report says."""

    state: Literal["ok", "empty", "missing", "corrupt", "stale"]
    passed: int = 0
    failed: int = 0
    other: int = 0
    """Pending, other and unknown statuses: they count as tests that did not pass."""
    skipped: int = 0
    """Left out of the total."""
    in_flight: int = 0
    """Tests that were running when the session was broken off; left out of everything."""
    problem: str = ""

    @property
    def total(self) -> int:
        """Tests that count."""
        return self.passed + self.failed + self.other


def read_ctrf(content: bytes | None, *, not_before_seconds: float | None = None) -> CtrfReport:
    """The report in `content` (None: no file). One that says it started before `not_before_seconds` is stale.

    (catalogue R4)
    """
    if content is None:
        return CtrfReport("missing")
    if len(content) > MAX_BYTES:
        return CtrfReport("corrupt", problem=f"{len(content)} bytes, expected at most {MAX_BYTES}")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        return CtrfReport("corrupt", problem=str(error)[:200])
    results = found.get("results", found) if isinstance(found, dict) else None
    if not isinstance(results, dict):
        return CtrfReport("corrupt", problem="neither `results` nor bare `tests`")
    summary = results.get("summary")
    summary = summary if isinstance(summary, dict) else {}
    if _is_stale(summary, not_before_seconds):
        return CtrfReport("stale", problem="the report's own start lies before the trial's")
    tests = results.get("tests")
    return _from_tests(tests) if isinstance(tests, list) else _from_summary(summary)


def _from_tests(tests: list[object]) -> CtrfReport:
    counts = {"passed": 0, "failed": 0, "other": 0, "skipped": 0, "in_flight": 0}
    # Parametrised tests and files with equal test names repeat a name: every entry counts, none replaces another.
    for test in tests:
        if not isinstance(test, dict):
            return CtrfReport("corrupt", problem="an entry of `tests` is no object")
        status = "in_flight" if _in_flight(test) else test.get("status")
        counts[status if isinstance(status, str) and status in counts else "other"] += 1
    return _with_state(counts)


def _from_summary(summary: Mapping[str, object]) -> CtrfReport:
    names = ("passed", "failed", "skipped", "pending", "other")
    counts = {name: summary.get(name, 0) for name in names}
    whole = {name: value for name, value in counts.items() if type(value) is int and 0 <= value <= 1_000_000}
    if "passed" not in summary or len(whole) != len(names):
        return CtrfReport("corrupt", problem="no `tests` list, and the summary has no usable counts")
    return _with_state(
        {
            "passed": whole["passed"],
            "failed": whole["failed"],
            "other": whole["other"] + whole["pending"],
            "skipped": whole["skipped"],
            "in_flight": 0,
        }
    )


def _with_state(counts: Mapping[str, int]) -> CtrfReport:
    total = counts["passed"] + counts["failed"] + counts["other"]
    # A collection error leaves an empty list behind, and tests of good files vanish with it: never 0 of 0.
    return CtrfReport(
        "ok" if total else "empty",
        passed=counts["passed"],
        failed=counts["failed"],
        other=counts["other"],
        skipped=counts["skipped"],
        in_flight=counts["in_flight"],
    )


def _in_flight(test: Mapping[str, object]) -> bool:
    """A session that is broken off reports its running test as passed, with `stop` 0 or without one."""
    stop = test.get("stop")
    return stop == 0 if stop is not None else bool(test.get("start"))


def _is_stale(summary: Mapping[str, object], not_before_seconds: float | None) -> bool:
    started = summary.get("start", summary.get("stop"))
    if not_before_seconds is None or isinstance(started, bool) or not isinstance(started, int | float):
        return False
    # Compared, not converted: JSON numbers may be larger than any float.
    if not 0 < started < _LATEST:
        return False
    seconds = started / 1000 if started > _MILLISECONDS_FROM else started
    return seconds < not_before_seconds - _CLOCK_SLACK_SECONDS
