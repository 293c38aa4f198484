"""A watched run as lines: one per rollout, one per alert, and the rule table at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from t1cli.run import metric_names
from t1cli.ui.console import answer, aside
from t1cli.ui.counted import counted
from t1cli.watch.counting import OF_RUN, Counting
from t1cli.watch.engine import Alert
from t1cli.watch.lint import Finding
from t1cli.watch.metrics.registry import registry
from t1cli.watch.result import RuleResult, WatchResult
from t1cli.watch.rule_tests import TestOutcome
from t1cli.watch.sources.source import Row
from t1cli.watch.sweep import Swept

# What a person looks at first: label, metric, format.
SHOWN = (
    ("reward", metric_names.REWARD, "{:.3f}"),
    ("checks", metric_names.CHECK_RATE, "{:.2f}"),
    ("EV", metric_names.EXPLAINED_VARIANCE, "{:+.2f}"),
    ("gap", metric_names.LOGPROB_GAP, "{:.4f}"),
    ("lost", "terminal/non_trainable_ratio", "{:.0%}"),
    ("rollout s", "perf/rollout_time", "{:.1f}"),
    ("step s", "perf/step_time", "{:.1f}"),
)


class Lines:
    """Prints one line per rollout, in order, as soon as its training step has been logged too."""

    def __init__(self, total_rollouts: int | None, counting: Counting = OF_RUN) -> None:
        self._total = total_rollouts
        self._counting = counting
        self._open: dict[int, dict[str, float]] = {}
        self._printed: int = -1

    def row(self, row: Row) -> None:
        """A row has been read. A step is printed when both axes have it, or when later ones are complete."""
        if row.step <= self._printed and any(name.startswith("rollout/") for name in row.values):
            self._printed = row.step - 1  # a resumed run does its last rollouts again
        if row.step <= self._printed:
            return
        values = self._open.setdefault(row.step, {})
        values.update(row.values)
        if {"rollout", "train"} <= {name.split("/", 1)[0] for name in values}:
            self._print_up_to(row.step)

    def close(self) -> None:
        """Print what is left."""
        if self._open:
            self._print_up_to(max(self._open))

    def _print_up_to(self, last: int) -> None:
        for step in sorted(step for step in self._open if step <= last):
            self._print(step, self._open.pop(step))
            self._printed = step

    def _print(self, step: int, values: Mapping[str, float]) -> None:
        of = f"/{self._total}" if self._total else ""
        parts = [f"{label} {shape.format(values[name])}" for label, name, shape in SHOWN if name in values]
        answer().print(f"{self._counting.one(step)}{of}  " + "  ".join(parts))


def print_alert(alert: Alert, counting: Counting = OF_RUN) -> None:
    """One alert: severity in words, what was seen, what it means, what to do. Good news carries no alarm."""
    ids = f" [{', '.join(alert.catalogue)}]" if alert.catalogue else ""
    console, at = answer(), counting.one(alert.step)
    if alert.good:
        console.print(f"✓ {alert.rule} (good news){ids}, from {at} on: {alert.says}")
        console.print(f"  note: {alert.advice}")
        return
    severity = "" if alert.severity == "diagnosis" else f"{alert.severity} "
    console.print(f"! {severity}{alert.rule}{ids} at {at}: {alert.says}")
    if alert.value is not None and alert.threshold is not None:
        console.print(f"  saw:  {alert.metric} = {alert.value:.4g}, threshold {alert.threshold:.4g}")
    if alert.advice:
        console.print(f"  hint: {alert.advice}")


def print_start(name: str, packs: tuple[str, ...], *, living: bool) -> None:
    """What is being watched, on stderr, before the first row arrives."""
    aside().print(f"watching {name} with {', '.join(packs)}")
    if living:
        aside().print("Ctrl-C ends the watching, not the run")


def print_blind(reason: str, seconds: float) -> None:
    """The source cannot be read: that is its own trouble, never `ok`."""
    aside().print(f"blind for {seconds:.0f} s: {reason}")


def print_result(result: WatchResult) -> None:
    """The rule table, bindings that are not the metric's own name, diagnoses, and the verdict."""
    console, counting = answer(), result.counting
    console.print()
    console.print(f"  {'severity':<8} {'rule':<26} {'first breach':>12} {'first firing':>12}  state")
    for rule in result.rules:
        fired = str(counting.number(rule.fired_at[0])) if rule.fired_at else "-"
        breach = "-" if rule.first_breach is None else str(counting.number(rule.first_breach))
        console.print(f"  {rule.severity:<8} {rule.name:<26} {breach:>12} {fired:>12}  {_state(rule, result)}".rstrip())
    for metric, logged in result.bindings.items():
        if logged is not None and logged != metric and not logged.startswith("="):
            console.print(f"  {metric} <- {logged}")
    for diagnosis in result.diagnoses:
        good = " (good news)" if diagnosis.healthy else ""
        held = counting.span(diagnosis.from_step, diagnosis.to_step)
        console.print(f"diagnosis: {diagnosis.name}{good}, {held}")
        console.print(f"  evidence: {'; '.join(diagnosis.evidence)}")
        console.print(f"  advice:   {diagnosis.advice}")
    if result.stop is not None:
        hours = "" if result.stop.hours is None else f", {result.stop.hours:.1f} h into the run"
        saved = "" if result.stop.gpu_hours_saved is None else f": {result.stop.gpu_hours_saved:.0f} GPU-hours saved"
        console.print(f"stop: {result.stop.rule} at {counting.one(result.stop.step)}{hours}{saved}")
    if result.run_state is not None:
        detail = f": {result.run_detail}" if result.run_detail else ""
        console.print(f"run {result.run_state} after {result.last_step + 1} rollouts{detail}")
    console.print(result.words)


def _state(rule: RuleResult, result: WatchResult) -> str:
    if result.bindings.get(rule.metric) is None:
        return "not logged by this run"
    left = "" if rule.gpu_hours_left is None or not rule.fired_at else f"  {rule.gpu_hours_left:.0f} GPU-hours after it"
    again = f"  fired {len(rule.fired_at)} times" if len(rule.fired_at) > 1 else ""
    return rule.standing + again + left


def print_lint(findings: Sequence[Finding]) -> None:
    """What is wrong with rules, one finding a paragraph."""
    for finding in findings:
        answer().print(f"{finding.pack}: {finding.rule}: {finding.message}")
        if finding.where:
            answer().print(f"  --> {finding.where}")
        if finding.hint:
            answer().print(f"  hint: {finding.hint}")
    answer().print(counted(len(findings), "finding") if findings else "no findings")


def print_rule_tests(outcomes: Sequence[TestOutcome]) -> None:
    """One line a test, the differences under those that failed, and a count."""
    for outcome in outcomes:
        answer().print(f"{'ok  ' if outcome.passed else 'FAIL'} {outcome.file}: {outcome.name}")
        for problem in outcome.problems:
            answer().print(f"     {problem}")
    failed = sum(not outcome.passed for outcome in outcomes)
    answer().print(f"{len(outcomes) - failed} passed, {failed} failed")


def print_sweep(rule: str, outcome: Sequence[Swept]) -> None:
    """One line per threshold and history, as the history counts; on a control a firing is a false alarm."""
    console = answer()
    console.print(f"{rule}\n  {'threshold':>10}  {'first firing':>12}  {'GPU-hours':>10}  history")
    for one in outcome:
        fired = "never" if one.fired_at is None else str(one.counting.number(one.fired_at))
        hours = "-" if one.gpu_hours is None else f"{one.gpu_hours:.0f}"
        kind = ", healthy" + (": FALSE ALARM" if one.fired_at is not None else "") if one.control else ""
        console.print(f"  {one.threshold:>10g}  {fired:>12}  {hours:>10}  {one.history}{kind}")


def print_metrics() -> None:
    """One line a metric."""
    known = registry().metrics
    width = max(map(len, known))
    for name, metric in known.items():
        answer().print(f"{name:<{width}}  {metric.population:<9}  {metric.meaning}")
