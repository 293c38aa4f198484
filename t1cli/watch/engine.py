"""The rule engine: the same code live, in replay and in tests.

Rows go in one at a time; alerts come out. A rule is warming, ok, pending (breaching, patience not used up) or firing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from t1cli.watch.conditions import Judge, Judgement
from t1cli.watch.history import History
from t1cli.watch.rule import Derived, Diagnosis, Pack, Rule
from t1cli.watch.sources.source import Row


@dataclass(frozen=True)
class Alert:
    """A rule that has just begun to fire."""

    rule: str
    severity: str
    step: int
    value: float | None
    threshold: float | None
    metric: str
    says: str
    advice: str
    catalogue: tuple[str, ...]


@dataclass
class RuleState:
    """What a rule has seen so far."""

    rule: Rule
    streak: int = 0
    state: str = "warming"
    note: str = ""
    first_breach: int | None = None
    fired_at: list[int] = field(default_factory=list)
    frozen: float | None = None
    seen_step: int | None = None


@dataclass
class DiagnosisState:
    """When a diagnosis held."""

    diagnosis: Diagnosis
    first: int | None = None
    last: int | None = None
    evidence: tuple[str, ...] = ()


class Engine:
    """Rules and diagnoses over one history."""

    def __init__(
        self, packs: Sequence[Pack], *, variables: Mapping[str, float], window_scale: float = 1.0, protect: int = 0
    ) -> None:
        self.history = History()
        self.rules = [RuleState(rule) for pack in packs for rule in pack.rules]
        self.diagnoses = [DiagnosisState(diagnosis) for pack in packs for diagnosis in pack.diagnoses]
        self._derived = {name: derived for pack in packs for name, derived in pack.derived.items()}
        self._judge = Judge(variables, window_scale)
        self._protect = protect

    def observe(self, row: Row) -> tuple[Alert, ...]:
        """Take in one row; return the rules that begin to fire with it."""
        self.history.add(row)
        self._derive(row)
        alerts = [alert for state in self.rules if (alert := self._advance(state, row)) is not None]
        self._diagnose(row)
        return tuple(alerts)

    def _derive(self, row: Row) -> None:
        for name, derived in self._derived.items():
            value = _sum_of(derived, row)
            if value is not None:
                self.history.add(Row(step=row.step, values={name: value}, time=row.time))

    def _advance(self, state: RuleState, row: Row) -> Alert | None:
        """Only a new point of the rule's own metric moves its patience."""
        series = self.history.get(state.rule.metric)
        if series is None or not series.steps or series.steps[-1] != row.step or not self._has(state.rule.metric, row):
            return None
        if state.seen_step is not None and row.step < state.seen_step:
            state.streak, state.frozen = 0, None
        state.seen_step = row.step
        judgement = self._judge.judge(state.rule, self.history, frozen=state.frozen)
        if judgement.breach is None:
            state.note = judgement.note
            return None
        if not judgement.breach:
            state.streak, state.state, state.frozen, state.note = 0, "ok", None, ""
            return None
        return self._breach(state, row.step, judgement)

    def _has(self, metric: str, row: Row) -> bool:
        return metric in row.values or metric in self._derived

    def _breach(self, state: RuleState, step: int, judgement: Judgement) -> Alert | None:
        rule = state.rule
        state.streak += 1
        state.first_breach = step if state.first_breach is None else state.first_breach
        self._freeze(state)
        if state.state == "firing":
            return None
        state.state = "pending"
        if state.streak < self._judge.scaled(rule.for_points) or step < self._first_step(rule):
            return None
        if rule.second_sign and not any(self._judge.judge(sign, self.history).breach for sign in rule.second_sign):
            state.note = "waiting for a second sign"
            return None
        state.state, state.note = "firing", ""
        state.fired_at.append(step)
        return Alert(rule.name, rule.severity, step, judgement.value, judgement.threshold, rule.metric, rule.says,
                     rule.advice, rule.catalogue)  # fmt: skip

    def _freeze(self, state: RuleState) -> None:
        """A slow collapse must not drag its own baseline along."""
        if state.frozen is None and state.rule.baseline is not None:
            series = self.history.get(state.rule.metric)
            assert series is not None
            state.frozen = self._judge.baseline_of(state.rule, series.values)

    def _first_step(self, rule: Rule) -> int:
        return max(rule.after, self._protect if rule.severity == "stop" else 0)

    def _diagnose(self, row: Row) -> None:
        for state in self.diagnoses:
            signs = [(sign, self._judge.judge(sign, self.history)) for sign in state.diagnosis.signs]
            if not all(judgement.breach for _, judgement in signs):
                continue
            if any(self._judge.judge(sign, self.history).breach for sign in state.diagnosis.absent_signs):
                continue
            state.first = row.step if state.first is None else state.first
            state.last = row.step
            state.evidence = tuple(f"{sign.metric} {_shown(judgement)}" for sign, judgement in signs)


def _sum_of(derived: Derived, row: Row) -> float | None:
    from fnmatch import fnmatch

    if not any(fnmatch(name, derived.needs) for name in row.values):
        return None
    return sum(value for name, value in row.values.items() if fnmatch(name, derived.total))


def _shown(judgement: Judgement) -> str:
    if judgement.value is None or judgement.threshold is None:
        return "breaching"
    side = "above" if judgement.value > judgement.threshold else "below"
    return f"{judgement.value:.4g} {side} {judgement.threshold:.4g}"
