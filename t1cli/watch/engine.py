"""The rule engine: the same code live, in replay and in tests.

Frames (the values of one step) go in one at a time; alerts come out. A rule is warming, ok, pending (breaching,
patience not used up) or firing. The same frames give the same alerts, so a restarted watcher only has to read again.
"""

from __future__ import annotations

import fnmatch
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from t1cli.watch.conditions import OVERDUE_CADENCES, Judge, Judgement, check_variables
from t1cli.watch.expression import Absent, Context, evaluate
from t1cli.watch.history import History
from t1cli.watch.metrics.binding import Binder
from t1cli.watch.rule import Condition, Diagnosis, Pack, Rule, SampleSize
from t1cli.watch.sources.source import Row


@dataclass(frozen=True)
class Alert:
    """A rule that has just begun to fire, or a diagnosis that has just begun to hold."""

    rule: str
    severity: str
    step: int
    value: float | None
    threshold: float | None
    metric: str
    says: str
    advice: str
    catalogue: tuple[str, ...]
    segment: int = 0
    """How often the run had been resumed at an earlier step."""
    good: bool = False
    """Whether it is a reading that is good news."""

    @property
    def key(self) -> str:
        """What makes it the same alert after a restart of the watcher."""
        return f"{self.rule}/{self.segment}/{self.step}"


@dataclass
class RuleState:
    """What a rule has seen so far."""

    rule: Rule
    verdicts: deque[bool]
    state: str = "warming"
    note: str = ""
    first_breach: int | None = None
    fired_at: list[int] = field(default_factory=list)
    frozen: float | None = None
    recovered: int = 0
    missing: bool = False
    judged: int = 0
    """Points that were judged so far."""


@dataclass
class DiagnosisState:
    """When a diagnosis held."""

    diagnosis: Diagnosis
    streak: int = 0
    first: int | None = None
    last: int | None = None
    steps: int = 0
    holds: bool = False
    evidence: tuple[str, ...] = ()


class Engine:
    """Rules and diagnoses over one history."""

    def __init__(
        self,
        packs: Sequence[Pack],
        *,
        variables: Mapping[str, float],
        window_scale: float = 1.0,
        protect: int = 0,
        other_runs: Mapping[str, History] | None = None,
        one_machine: bool = False,
    ) -> None:
        check_variables(tuple(packs), variables)
        self.history = History()
        self.binder = Binder()
        self.segment = 0
        self._judge = Judge(variables, window_scale, other_runs)
        self._variables = variables
        self._protect = protect
        self._one_machine = one_machine
        # A later pack's rule replaces an earlier one of the same name: shared rules count once, a campaign's own wins.
        rules = {rule.name: rule for pack in packs for rule in pack.rules}
        self.rules = [RuleState(rule, deque(maxlen=self._patience(rule)[1])) for rule in rules.values()]
        self.diagnoses = [DiagnosisState(diagnosis) for pack in packs for diagnosis in pack.diagnoses]
        self.derived = {name: derived for pack in packs for name, derived in pack.derived.items()}
        self._sized = {c.point_of: (c.metric, c.min_n) for c in _conditions(packs) if c.min_n is not None}

    def observe(self, row: Row) -> tuple[Alert, ...]:
        """Take in one frame; return what begins to fire with it. A frame that repeats steps is a resume."""
        named = Row(row.step, self.binder.rename(row.values), row.time)
        if self.history.repeats(named):
            self._rewind(row.step)
        seconds = self._seconds(row)
        self.history.add(named)
        here = dict(named.values)
        self._derive(here, named, seconds)
        self._keep_sized(here, named)
        alerts = [alert for state in self.rules for alert in self._advance(state, here, row.step)]
        alerts += [alert for held in self.diagnoses if (alert := self._diagnose(held, row.step)) is not None]
        return tuple(alerts)

    def _seconds(self, row: Row) -> float | None:
        before = self.history.last_time
        if row.time is None or before is None or row.time <= before or row.step != self.history.last_step + 1:
            return None
        return row.time - before

    def _derive(self, here: dict[str, float], row: Row, seconds: float | None) -> None:
        """In the order written, so that one derived metric may use another."""
        for name, derived in self.derived.items():
            if derived.needs and not any(fnmatch.fnmatchcase(known, derived.needs) for known in here):
                continue
            try:
                value = evaluate(derived.expression, Context(self._variables, here, self.history.latest, seconds))
            except Absent:
                continue
            here[name] = value
            self.history.put(Row(row.step, {name: value}))

    def _keep_sized(self, here: dict[str, float], row: Row) -> None:
        for name, (metric, size) in self._sized.items():
            if metric in here and _enough(size, here):
                here[name] = here[metric]
                self.history.put(Row(row.step, {name: here[metric]}))

    def _rewind(self, step: int) -> None:
        self.segment += 1
        self.history.rewind(step)
        for state in self.rules:
            state.verdicts.clear()
            state.recovered, state.missing = 0, False
            state.state = "ok" if state.state in ("pending", "firing") else state.state
            state.frozen = None if state.rule.reset_on_resume else state.frozen
        for held in self.diagnoses:
            held.streak, held.holds = 0, False

    def _patience(self, rule: Rule) -> tuple[int, int]:
        """How many of how many points."""
        needed = self._judge.scaled(rule.for_points)
        return needed, max(needed, self._judge.scaled(rule.of)) if rule.of else needed

    def could_fire(self, state: RuleState) -> bool:
        """Whether a rule has had the points and the time to fire; a rule that has fired had them."""
        needed, _ = self._patience(state.rule)
        had = state.judged >= needed and self.history.last_step >= self._season(state.rule)
        return had or bool(state.fired_at)

    def advice(self, diagnosis: Diagnosis) -> str:
        """What to do about it where this run runs."""
        return (
            diagnosis.advice_on_one_machine
            if self._one_machine and diagnosis.advice_on_one_machine
            else diagnosis.advice
        )

    def _advance(self, state: RuleState, here: Mapping[str, float], step: int) -> list[Alert]:
        """Only a new point of the rule's own metric moves its patience, unless the metric's absence means something."""
        rule = state.rule
        if rule.absent or rule.point_of in here:
            state.missing = False
            firing = state.state == "firing"
            judgement = self._judge.judge(rule, self.history, frozen=state.frozen)
            if firing and rule.clear is not None and judgement.breach is False:
                judgement = self._judge.judge(rule, self.history, frozen=state.frozen, instead=rule.clear)
            return self._weigh(state, step, judgement)
        return self._on_missing(state, step)

    def _on_missing(self, state: RuleState, step: int) -> list[Alert]:
        rule = state.rule
        silent, series = self.history.frames_since(rule.point_of), self.history.get(rule.point_of)
        if silent is None or series is None or silent <= OVERDUE_CADENCES * series.cadence:
            return []
        if rule.on_missing == "alert" and not state.missing:
            state.missing = True
            return [self._alert(rule, step, float(silent), None, severity="notice", says=f"{rule.metric} is overdue")]
        if rule.on_missing in ("breach", "ok"):
            return self._weigh(state, step, Judgement(rule.on_missing == "breach", None, None, "overdue"))
        return []

    def _weigh(self, state: RuleState, step: int, judgement: Judgement) -> list[Alert]:
        if judgement.breach is None:
            state.note = judgement.note
            return []
        state.judged += 1
        if judgement.breach and not self._all_hold(state.rule):
            judgement = Judgement(False, judgement.value, judgement.threshold)
        return self._breach(state, step, judgement) if judgement.breach else self._good(state)

    def _all_hold(self, rule: Rule) -> bool:
        return all(self._judge.judge(condition, self.history).breach for condition in rule.also)

    def _good(self, state: RuleState) -> list[Alert]:
        state.note = ""
        state.verdicts.append(False)
        if state.state == "firing":
            state.recovered += 1
            if state.recovered < self._judge.scaled(state.rule.recover):
                return []
        state.recovered = 0
        state.state, state.frozen = "ok", None
        needed, of = self._patience(state.rule)
        if needed == of:
            state.verdicts.clear()
        elif any(state.verdicts):
            state.state, state.note = "pending", self._patience_used(state)
        return []

    def _breach(self, state: RuleState, step: int, judgement: Judgement) -> list[Alert]:
        rule = state.rule
        state.recovered = 0
        state.verdicts.append(True)
        state.first_breach = step if state.first_breach is None else state.first_breach
        # A slow collapse must not drag its own baseline along.
        state.frozen = judgement.base if state.frozen is None else state.frozen
        if state.state == "firing":
            return []
        state.state, state.note = "pending", self._patience_used(state)
        if sum(state.verdicts) < self._patience(rule)[0] or not self._in_season(rule, step):
            return []
        if rule.second_sign and not any(self._judge.judge(sign, self.history).breach for sign in rule.second_sign):
            state.note = "waiting for a second sign"
            return []
        state.state, state.note = "firing", ""
        state.fired_at.append(step)
        return [self._alert(rule, step, judgement.value, judgement.threshold)]

    def _patience_used(self, state: RuleState) -> str:
        needed, of = self._patience(state.rule)
        among = f", among {of}" if of > needed else ""
        return f"{sum(state.verdicts)} of the {needed} breaching points it takes{among}"

    def _in_season(self, rule: Rule, step: int) -> bool:
        return step >= self._season(rule) and (rule.until is None or step < self._judge.scaled(rule.until))

    def _season(self, rule: Rule) -> int:
        """The first step at which the rule may fire."""
        first = self._judge.scaled(rule.after) if rule.after else 0
        return max(first, self._protect if rule.severity == "stop" else 0)

    def _alert(
        self, rule: Rule, step: int, value: float | None, threshold: float | None, *, severity: str = "", says: str = ""
    ) -> Alert:
        return Alert(
            rule.name,
            severity or rule.severity,
            step,
            value,
            threshold,
            rule.metric,
            says or rule.says or f"{rule.aggregate} of {rule.metric} over {self._judge.scaled(rule.window)}",
            rule.advice,
            rule.catalogue,
            self.segment,
        )

    def _diagnose(self, held: DiagnosisState, step: int) -> Alert | None:
        diagnosis = held.diagnosis
        evidence = self._evidence(diagnosis, step)
        if evidence is None:
            held.streak, held.holds = 0, False
            return None
        held.streak += 1
        if held.streak < self._judge.scaled(diagnosis.for_steps):
            return None
        held.first = step if held.first is None else held.first
        held.last, held.evidence, held.steps = step, evidence, held.steps + 1
        began, held.holds = not held.holds, True
        # Bad news is told whenever it begins again, good news once.
        if not began or (diagnosis.healthy and held.steps > 1):
            return None
        return Alert(f"diagnosis: {diagnosis.name}", "diagnosis", step, None, None, "", "; ".join(evidence),
                     self.advice(diagnosis), diagnosis.catalogue, self.segment, diagnosis.healthy)  # fmt: skip

    def _evidence(self, diagnosis: Diagnosis, step: int) -> tuple[str, ...] | None:
        """What each sign saw; None when the diagnosis does not hold."""
        if diagnosis.until is not None and step >= self._judge.scaled(diagnosis.until):
            return None
        seen = []
        for sign in diagnosis.signs:
            judgement = self._judge.judge(sign, self.history)
            if not judgement.breach:
                return None
            seen.append(f"{sign.metric} {shown(sign, judgement)}")
        either = [(sign, self._judge.judge(sign, self.history)) for sign in diagnosis.any_signs]
        if either and not any(judgement.breach for _, judgement in either):
            return None
        if any(self._judge.judge(sign, self.history).breach for sign in diagnosis.absent_signs):
            return None
        return (*seen, *(f"{sign.metric} {shown(sign, judgement)}" for sign, judgement in either if judgement.breach))


def shown(condition: Condition, judgement: Judgement) -> str:
    """What a sign saw, for evidence."""
    if condition.absent:
        return "has stopped coming"
    if judgement.value is None or judgement.threshold is None:
        return "is not finite"
    side = "above" if condition.above is not None else "below"
    of = "" if condition.window == 1 else f"{condition.aggregate} "
    return f"{of}{judgement.value:.4g} {side} {judgement.threshold:.4g}"


def _enough(size: SampleSize | None, here: Mapping[str, float]) -> bool:
    return size is None or here.get(size.metric, 0.0) >= size.at_least


def _conditions(packs: Sequence[Pack]) -> list[Condition]:
    found: list[Condition] = []
    for pack in packs:
        for rule in pack.rules:
            found += [rule, *rule.also, *rule.second_sign]
        for diagnosis in pack.diagnoses:
            found += [*diagnosis.signs, *diagnosis.any_signs, *diagnosis.absent_signs]
    return found
