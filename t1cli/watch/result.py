"""What watching a run came to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from t1cli.launch.run_state import RunState, Standing
from t1cli.watch.engine import Engine, RuleState

FORMAT_VERSION = 1


@dataclass(frozen=True)
class RuleResult:
    """One rule over the whole history."""

    name: str
    severity: str
    metric: str
    first_breach: int | None
    fired_at: tuple[int, ...]
    state: str
    note: str


@dataclass(frozen=True)
class DiagnosisResult:
    """One named cause: the steps between which its signs held, and the last evidence."""

    name: str
    from_step: int
    to_step: int
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True)
class Stop:
    """Where the first stop rule fired, and what stopping there would have saved."""

    rule: str
    step: int
    hours: float | None
    gpu_hours_saved: float | None


@dataclass(frozen=True)
class WatchResult:
    """The answer of `t1 watch --replay`."""

    name: str
    last_step: int
    rules: tuple[RuleResult, ...]
    diagnoses: tuple[DiagnosisResult, ...]
    stop: Stop | None
    bindings: dict[str, str | None]
    """Metric of a rule to the name it was found under; None when the run does not log it."""
    run_state: str | None = None
    """State of the run behind the source, such as `finished` or `failed`; None for a mere file."""
    run_detail: str = ""

    @property
    def healthy(self) -> bool:
        """No rule of severity warning or stop has fired, and the run has not died."""
        died = self.run_state in (RunState.FAILED, RunState.DEAD)
        return not died and not any(rule.fired_at and rule.severity != "notice" for rule in self.rules)

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        found = asdict(self)
        for diagnosis in found["diagnoses"]:
            diagnosis["from"], diagnosis["to"] = diagnosis.pop("from_step"), diagnosis.pop("to_step")
        return {"format_version": FORMAT_VERSION, "healthy": self.healthy, **found}


def summarize(
    engine: Engine, name: str, *, times: dict[int, float], gpus: float, run: Standing | None = None
) -> WatchResult:
    """Freeze an engine's state. `times` maps a step to Unix seconds, for hours and GPU-hours."""
    rules = tuple(_rule(state) for state in engine.rules)
    diagnoses = tuple(
        DiagnosisResult(d.diagnosis.name, d.first, d.last, d.evidence, d.diagnosis.advice)
        for d in engine.diagnoses
        if d.first is not None and d.last is not None
    )
    metrics = dict.fromkeys(state.rule.metric for state in engine.rules)
    bindings = {metric: metric if engine.history.get(metric) is not None else None for metric in metrics}
    return WatchResult(
        name,
        engine.history.last_step,
        rules,
        diagnoses,
        _stop(rules, times, gpus),
        bindings,
        run_state=str(run.state) if run else None,
        run_detail=run.detail if run else "",
    )


def _rule(state: RuleState) -> RuleResult:
    rule = state.rule
    return RuleResult(
        rule.name, rule.severity, rule.metric, state.first_breach, tuple(state.fired_at), state.state, state.note
    )


def _stop(rules: tuple[RuleResult, ...], times: dict[int, float], gpus: float) -> Stop | None:
    fired = [(rule.fired_at[0], rule.name) for rule in rules if rule.severity == "stop" and rule.fired_at]
    if not fired:
        return None
    step, name = min(fired)
    if step not in times:
        return Stop(name, step, None, None)
    hours = (times[step] - min(times.values())) / 3600
    left = (max(times.values()) - times[step]) / 3600
    return Stop(name, step, round(hours, 3), round(left * gpus, 3) if gpus else None)
