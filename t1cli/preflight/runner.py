"""Runs all checks in parallel under their time limits; a check that breaks is `crashed`, never `fail`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.plan.plan import Plan
from t1cli.preflight.check import Check, Context, Saw
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.spec.load import LoadedSpec

Progress = Callable[[CheckResult], None]


def run_preflight(
    loaded: LoadedSpec,
    plan: Plan,
    *,
    runs_dir: Path,
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> PreflightReport:
    """Answer every check for a planned spec. `only` names checks or families. Raises BadInput for unknown names."""
    context = Context(loaded=loaded, plan=plan, runs_dir=runs_dir)
    running = [(check, time.monotonic(), _start(check, context)) for check in _chosen(only)]
    results = []
    for check, started, future in running:
        result = _collect(check, started, future)
        if progress is not None:
            progress(result)
        results.append(result)
    return PreflightReport(name=plan.name, digest=plan.digest, checks=tuple(results))


def _chosen(only: Sequence[str]) -> tuple[Check, ...]:
    if not only:
        return ALL_CHECKS
    known = {check.id for check in ALL_CHECKS} | {check.id.split(".")[0] for check in ALL_CHECKS}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise BadInput(
            f"no check or family named {', '.join(unknown)}",
            where="--only",
            hint="names: " + ", ".join(sorted(known)),
        )
    return tuple(check for check in ALL_CHECKS if check.id in only or check.id.split(".")[0] in only)


def _start(check: Check, context: Context) -> Future[tuple[Saw, float]]:
    """A daemon thread per check: one that hangs can never keep the process alive."""
    future: Future[tuple[Saw, float]] = Future()

    def work() -> None:
        started = time.monotonic()
        try:
            saw = check.run(context)
        except Exception as broken:
            future.set_exception(broken)
        else:
            future.set_result((saw, time.monotonic() - started))

    threading.Thread(target=work, name=f"preflight {check.id}", daemon=True).start()
    return future


def _collect(check: Check, started: float, future: Future[tuple[Saw, float]]) -> CheckResult:
    left = max(0.0, started + check.limit_seconds - time.monotonic())
    try:
        saw, seconds = future.result(timeout=left)
    except TimeoutError:
        saw = _crash(f"no answer within {check.limit_seconds:.0f} s", check)
        seconds = check.limit_seconds
    except Exception as broken:
        saw, seconds = _crash(f"{type(broken).__name__}: {broken}", check), time.monotonic() - started
    return CheckResult(check.id, check.catalogue, saw.status, saw.found, saw.wanted, saw.fix, round(seconds, 3))


def _crash(what: str, check: Check) -> Saw:
    return Saw(
        "crashed", what, "an answer", f"the check itself broke: `t1 preflight SPEC --only {check.id}` repeats it"
    )
