"""What watching a run came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from t1cli.run.state import RunState, Standing
from t1cli.watch.counting import OF_FILE, OF_RUN, Counting
from t1cli.watch.engine import Engine, RuleState

FORMAT_VERSION = 1


class Verdict(StrEnum):
    """What the rules say of a run."""

    HEALTHY = "healthy"
    NOT_HEALTHY = "not_healthy"
    TOO_SHORT = "too_short"
    """Nothing fired, but the rules that would tell whether it learns have not had their points."""


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
    hours: float | None
    """Hours of the run when it fired first; None without a clock."""
    gpu_hours_left: float | None
    """GPU-hours that the run went on for after it; None without a clock or a number of GPUs."""
    could_fire: bool = True
    """Whether it has had the points and the time to fire."""
    settles: bool = False

    @property
    def standing(self) -> str:
        """State in words, with how far the points or the patience have come."""
        if self.state not in ("warming", "pending") or not self.note:
            return self.state
        return self.note if self.note.startswith(self.state) else f"{self.state}: {self.note}"


@dataclass(frozen=True)
class DiagnosisResult:
    """One named cause: the steps between which its signs held, and the last evidence."""

    name: str
    from_step: int
    to_step: int
    steps: int
    evidence: tuple[str, ...]
    advice: str
    healthy: bool
    catalogue: tuple[str, ...]


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
    first_step: int
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

    @property
    def judging(self) -> tuple[RuleResult, ...]:
        """Rules of severity warning or stop whose metric the run logs."""
        return tuple(r for r in self.rules if r.severity != "notice" and self.bindings.get(r.metric) is not None)

    @property
    def verdict(self) -> Verdict:
        """Healthy takes more than silence: a rule that settles could have fired, or half of all where none settles."""
        if not self.healthy:
            return Verdict.NOT_HEALTHY
        settling = [rule.could_fire for rule in self.judging if rule.settles]
        every = [rule.could_fire for rule in self.judging]
        enough = any(settling) if settling else bool(every) and 2 * sum(every) >= len(every)
        return Verdict.HEALTHY if enough else Verdict.TOO_SHORT

    @property
    def words(self) -> str:
        """The verdict for people."""
        if self.verdict is not Verdict.TOO_SHORT:
            return "healthy" if self.healthy else "NOT healthy"
        need = sum(not rule.could_fire for rule in self.judging)
        if not self.judging:
            return "nothing to judge by: it logs no metric of a rule that warns or stops"
        return f"too short to judge: {need} of {len(self.judging)} rules still need points"

    @property
    def counting(self) -> Counting:
        """How people count its steps."""
        return OF_FILE if self.run_state is None else OF_RUN

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        found = asdict(self)
        for diagnosis in found["diagnoses"]:
            diagnosis["from"], diagnosis["to"] = diagnosis.pop("from_step"), diagnosis.pop("to_step")
        return {"format_version": FORMAT_VERSION, "healthy": self.healthy, "verdict": self.verdict, **found}


@dataclass(frozen=True)
class RunClock:
    """When each step was logged, and how many GPUs ran."""

    times: Mapping[int, float]
    """Step to Unix seconds; of a resumed run the last time a step was logged."""
    gpus: float = 0.0

    def hours(self, step: int) -> float | None:
        """Hours from the first row to a step."""
        return None if step not in self.times else round((self.times[step] - min(self.times.values())) / 3600, 3)

    def gpu_hours_left(self, step: int) -> float | None:
        """GPU-hours from a step to the last row."""
        if step not in self.times or not self.gpus:
            return None
        return round((max(self.times.values()) - self.times[step]) / 3600 * self.gpus, 3)


def summarize(engine: Engine, name: str, clock: RunClock, run: Standing | None = None) -> WatchResult:
    """Freeze an engine's state."""
    rules = tuple(_rule(state, clock, could_fire=engine.could_fire(state)) for state in engine.rules)
    diagnoses = _diagnoses(engine)
    steps = [series.steps[0] for series in engine.history.series.values() if series.steps]
    return WatchResult(
        name,
        min(steps, default=-1),
        max((s.steps[-1] for s in engine.history.series.values() if s.steps), default=-1),
        rules,
        diagnoses,
        _stop(rules, clock),
        {metric: binding(engine, metric) for metric in dict.fromkeys(state.rule.metric for state in engine.rules)},
        run_state=str(run.state) if run else None,
        run_detail=run.detail if run else "",
    )


def _diagnoses(engine: Engine) -> tuple[DiagnosisResult, ...]:
    """Each cause once, although several packs may know different signs of it."""
    found: dict[str, DiagnosisResult] = {}
    for state in engine.diagnoses:
        if state.first is None or state.last is None:
            continue
        d = state.diagnosis
        new = DiagnosisResult(
            d.name, state.first, state.last, state.steps, state.evidence, engine.advice(d), d.healthy, d.catalogue
        )
        old = found.get(d.name)
        found[d.name] = new if old is None else _joined(old, new)
    return tuple(sorted(found.values(), key=lambda d: d.from_step))


def _joined(one: DiagnosisResult, other: DiagnosisResult) -> DiagnosisResult:
    longer = max(one, other, key=lambda d: d.steps)
    return replace(longer, from_step=min(one.from_step, other.from_step), to_step=max(one.to_step, other.to_step))


def binding(engine: Engine, metric: str) -> str | None:
    """Where a rule's metric comes from: a logged name, `= expression`, or None while nothing of it was seen."""
    if engine.history.get(metric) is None:
        return None
    if metric in engine.derived:
        return f"= {engine.derived[metric].expression}"
    return engine.binder.bound.get(metric, metric)


def _rule(state: RuleState, clock: RunClock, *, could_fire: bool) -> RuleResult:
    rule, fired = state.rule, tuple(state.fired_at)
    return RuleResult(
        rule.name,
        rule.severity,
        rule.metric,
        state.first_breach,
        fired,
        state.state,
        state.note,
        clock.hours(fired[0]) if fired else None,
        clock.gpu_hours_left(fired[0]) if fired else None,
        could_fire,
        rule.settles,
    )


def _stop(rules: tuple[RuleResult, ...], clock: RunClock) -> Stop | None:
    fired = [(rule.fired_at[0], rule.name) for rule in rules if rule.severity == "stop" and rule.fired_at]
    if not fired:
        return None
    step, name = min(fired)
    return Stop(name, step, clock.hours(step), clock.gpu_hours_left(step))
