"""A watched run as lines: one per rollout, one per alert, and the rule table at the end."""

from __future__ import annotations

from t1cli.launch import metric_names
from t1cli.ui.console import answer, aside
from t1cli.watch.engine import Alert
from t1cli.watch.history import History
from t1cli.watch.result import WatchResult
from t1cli.watch.sources.source import Row

# What a person looks at first: label, metric, format.
SHOWN = (
    ("reward", metric_names.REWARD, "{:.3f}"),
    ("checks", metric_names.CHECK_RATE, "{:.2f}"),
    ("EV", metric_names.EXPLAINED_VARIANCE, "{:+.2f}"),
    ("gap", metric_names.LOGPROB_GAP, "{:.4f}"),
    ("lost", "terminal/non_trainable_ratio", "{:.0%}"),
    ("seconds", "perf/rollout_time", "{:.1f}"),
)


class Lines:
    """Prints one line per rollout, in order, as soon as its training step has been logged too."""

    def __init__(self, total_rollouts: int | None) -> None:
        self._total = total_rollouts
        self._open: dict[int, set[str]] = {}
        self._printed: int = -1

    def row(self, row: Row, history: History) -> None:
        """A row has been taken in. A step is printed when both axes have it, or when later ones are complete."""
        if row.step <= self._printed and any(name.startswith("rollout/") for name in row.values):
            self._printed = row.step - 1  # a resumed run does its last rollouts again
        if row.step <= self._printed:
            return
        self._open.setdefault(row.step, set()).update(name.split("/", 1)[0] for name in row.values)
        if {"rollout", "train"} <= self._open[row.step]:
            self._print_up_to(row.step, history)

    def close(self, history: History) -> None:
        """Print what is left."""
        if self._open:
            self._print_up_to(max(self._open), history)

    def _print_up_to(self, last: int, history: History) -> None:
        for step in sorted(step for step in self._open if step <= last):
            del self._open[step]
            self._print(step, history)
            self._printed = step

    def _print(self, step: int, history: History) -> None:
        of = f"/{self._total}" if self._total else ""
        parts = [
            f"{label} {shape.format(value)}"
            for label, name, shape in SHOWN
            if (value := _at(history, name, step)) is not None
        ]
        answer().print(f"rollout {step + 1}{of}  " + "  ".join(parts))


def _at(history: History, name: str, step: int) -> float | None:
    series = history.get(name)
    if series is None or step not in series.steps:
        return None
    return series.values[series.steps.index(step)]


def print_alert(alert: Alert) -> None:
    """One alert: severity in words, what was seen, what it means, what to do."""
    ids = f" [{', '.join(alert.catalogue)}]" if alert.catalogue else ""
    console = answer()
    console.print(f"! {alert.severity} {alert.rule}{ids} at rollout {alert.step + 1}: {alert.says}")
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
    """The rule table, diagnoses, and the verdict."""
    console = answer()
    console.print()
    for rule in result.rules:
        fired = f"fired at {', '.join(str(step + 1) for step in rule.fired_at)}" if rule.fired_at else rule.state
        if result.bindings.get(rule.metric) is None:
            fired = "not logged by this run"
        note = f"  ({rule.note})" if rule.note and rule.state == "warming" else ""
        console.print(f"  {rule.severity:<8} {rule.name:<24} {fired}{note}")
    for diagnosis in result.diagnoses:
        console.print(f"diagnosis: {diagnosis.name}, rollouts {diagnosis.from_step + 1} to {diagnosis.to_step + 1}")
        console.print(f"  evidence: {'; '.join(diagnosis.evidence)}")
        console.print(f"  advice:   {diagnosis.advice}")
    if result.stop is not None:
        saved = "" if result.stop.gpu_hours_saved is None else f", {result.stop.gpu_hours_saved:.1f} GPU-hours saved"
        console.print(f"stop: {result.stop.rule} at rollout {result.stop.step + 1}{saved}")
    if result.run_state is not None:
        detail = f": {result.run_detail}" if result.run_detail else ""
        console.print(f"run {result.run_state} after {result.last_step + 1} rollouts{detail}")
    console.print("healthy" if result.healthy else "NOT healthy")
