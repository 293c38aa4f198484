"""Runs all checks in parallel under their time limits; a check that breaks is `crashed`, never `fail`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from t1cli.errors import BadInput, Diagnostic
from t1cli.plan.plan import Plan
from t1cli.preflight.check import Check, Context, Saw, skipped
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.preflight.cluster_fleet import expect, fleet_for
from t1cli.preflight.every_node import AcrossNodes, EveryNode
from t1cli.preflight.fleet import Probe
from t1cli.preflight.keep import KeptAnswers
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.spec.load import LoadedSpec

Progress = Callable[[CheckResult], None]

CLUSTER_SECONDS = 300.0


def run_preflight(
    loaded: LoadedSpec,
    plan: Plan,
    *,
    runs_dir: Path,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    fresh: bool = False,
    progress: Progress | None = None,
) -> PreflightReport:
    """Answer every check for a planned spec. `only` and `skip` name checks or families; `fresh` recalls nothing.

    Raises BadInput for unknown names.
    """
    chosen = _chosen(only, skip)
    context = Context(loaded=loaded, plan=plan, runs_dir=runs_dir)
    context = replace(context, fleet=fleet_for(context))
    expect(context, lambda: _probes(chosen, context))
    kept = None if fresh else KeptAnswers(runs_dir)
    return run_checks(chosen, context, recall=kept, keep=KeptAnswers(runs_dir), progress=progress)


def run_checks(
    checks: Sequence[Check],
    context: Context,
    *,
    recall: KeptAnswers | None = None,
    keep: KeptAnswers | None = None,
    progress: Progress | None = None,
) -> PreflightReport:
    """Run these checks in a given context; results in their order."""
    answers = _Answers(context, recall, keep)
    running = {check.id: _Running(check, context, _limit(check, context)) for check in checks}
    for one in running.values():
        # A daemon thread per check: one that hangs can never keep the process alive.
        threading.Thread(
            target=answers.work, args=(one, running), name=f"preflight {one.check.id}", daemon=True
        ).start()
    results = []
    for one in running.values():
        result = one.settle()
        if progress is not None:
            progress(result)
        results.append(result)
    return PreflightReport(name=context.plan.name, digest=context.plan.digest, checks=tuple(results))


@dataclass
class _Running:
    """One check under way."""

    check: Check
    context: Context
    limit_seconds: float
    began: threading.Event = field(default_factory=threading.Event)
    """Set when it no longer waits for what it needs."""
    began_seconds: float = 0.0
    result: Future[CheckResult] = field(default_factory=Future)

    def begin(self) -> None:
        self.began_seconds = time.monotonic()
        self.began.set()

    def settle(self) -> CheckResult:
        """The result, or a crash at the time limit. What it needs stands earlier and has settled by now."""
        self.began.wait()
        left = max(0.0, self.began_seconds + self.limit_seconds - time.monotonic())
        try:
            return self.result.result(timeout=left)
        except TimeoutError:
            return self.post(_crash(f"no answer within {self.limit_seconds:.0f} s", self.check, self.context))

    def post(self, saw: Saw, *, age_seconds: float | None = None) -> CheckResult:
        """Publish an answer; the first one counts, and is returned."""
        seconds = round(time.monotonic() - self.began_seconds, 3)
        check = self.check
        result = CheckResult(
            check.id, check.catalogue, saw.status, saw.found, saw.wanted, saw.fix, seconds, age_seconds, saw.nodes
        )
        try:
            self.result.set_result(result)
        except InvalidStateError:  # it was given up at its limit, or came just before
            return self.result.result()
        return result


class _Answers:
    """What happens in the thread of a check."""

    def __init__(self, context: Context, recall: KeptAnswers | None, keep: KeptAnswers | None) -> None:
        self._context, self._recall, self._keep = context, recall, keep

    def work(self, one: _Running, running: Mapping[str, _Running]) -> None:
        needed = [running[name].result.result() for name in one.check.needs if name in running]
        one.begin()
        lacking = [result for result in needed if result.status not in ("pass", "warn")]
        if lacking:
            one.post(skipped(f"needs {lacking[0].id}, which {_outcome(lacking[0])}"))
            return
        try:
            self._answer(one)
        except BaseException as broken:  # the boundary of a check: whatever it raises, the others go on
            one.post(_crash(f"{type(broken).__name__}: {broken}", one.check, self._context))

    def _answer(self, one: _Running) -> None:
        check = one.check
        if check.kept is None:
            one.post(check.run(self._context))
            return
        key = f"{check.id} {check.kept.key(self._context)}"
        recalled = self._recall.recall(check.id, key, check.kept) if self._recall is not None else None
        if recalled is not None:
            note = f" (asked {_ago(recalled.age_seconds)} ago; --fresh asks again)"
            saw = replace(recalled.saw, found=recalled.saw.found + note)
            one.post(saw, age_seconds=round(recalled.age_seconds, 1))
            return
        saw = check.run(self._context)
        # A failure is never kept: whoever repairs it wants to see that at once.
        if self._keep is not None and saw.status in ("pass", "warn"):
            self._keep.keep(check.id, key, saw)
        one.post(saw)


def _chosen(only: Sequence[str], skip: Sequence[str]) -> tuple[Check, ...]:
    _refuse_unknown(only, "--only")
    _refuse_unknown(skip, "--skip")
    wanted = [check for check in ALL_CHECKS if not only or _is_named(check, only)]
    return tuple(check for check in wanted if not _is_named(check, skip))


def _is_named(check: Check, names: Sequence[str]) -> bool:
    return check.id in names or check.family in names


def _refuse_unknown(names: Sequence[str], option: str) -> None:
    known = sorted({name for check in ALL_CHECKS for name in (check.id, check.family)})
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadInput.many(
            tuple(Diagnostic(f"no check or family named {n}", option, hint=_near(n, known)) for n in unknown)
        )


def _near(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=3)
    return (
        f"did you mean {' or '.join(close)}?" if close else "families: " + ", ".join(n for n in known if "." not in n)
    )


def _limit(check: Check, context: Context) -> float:
    """All nodes of a cluster are asked together, and any check may be the one that waits for the answer."""
    return max(check.limit_seconds, CLUSTER_SECONDS) if context.fleet.is_cluster else check.limit_seconds


def _probes(checks: Sequence[Check], context: Context) -> tuple[Probe, ...]:
    """Everything that these checks want to ask of a node."""
    asked = [check.run.probe(context) for check in checks if isinstance(check.run, EveryNode | AcrossNodes)]
    return tuple(probe for probe in asked if isinstance(probe, Probe))


def _outcome(result: CheckResult) -> str:
    return {"fail": "failed", "crashed": "broke", "skipped": "was skipped"}[result.status]


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _crash(what: str, check: Check, context: Context) -> Saw:
    fix = f"the check itself broke: `{context.again('preflight', '--only', check.id)}` repeats it"
    return Saw("crashed", what, "an answer", fix)
