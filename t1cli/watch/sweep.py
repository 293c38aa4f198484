"""`--sweep`: one rule's threshold over several histories, with what false alarms would cost on healthy controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from t1cli.errors import BadInput
from t1cli.watch.counting import OF_FILE, OF_RUN, Counting
from t1cli.watch.engine import Engine
from t1cli.watch.frames import Frames
from t1cli.watch.packs import load_packs
from t1cli.watch.result import RunClock
from t1cli.watch.rule import Pack, Rule
from t1cli.watch.sources.open_source import Opened
from t1cli.watch.sources.source import Row


@dataclass(frozen=True)
class Swept:
    """What one threshold does on one history."""

    threshold: float
    history: str
    control: bool
    """Whether the history is a healthy one: firing there is a false alarm."""
    fired_at: int | None
    gpu_hours: float | None
    """From the firing to the end: saved, or on a control wrongly killed."""
    of_run: bool = False
    """Whether the history is a run of t1, whose rollouts people count from 1."""

    @property
    def counting(self) -> Counting:
        """How people count the history's steps."""
        return OF_RUN if self.of_run else OF_FILE


def parse_sweep(text: str) -> tuple[str, tuple[float, ...]]:
    """`RULE=0.6,0.7,0.8`. Raises BadInput."""
    name, _, values = text.partition("=")
    try:
        thresholds = tuple(float(value) for value in values.split(","))
    except ValueError as error:
        raise BadInput(f"cannot read {text!r}: expected RULE=0.6,0.7,0.8", where="--sweep") from error
    return name.strip(), thresholds


@dataclass(frozen=True)
class Sweep:
    """A rule, its thresholds and the packs it comes from."""

    rule: str
    thresholds: tuple[float, ...]
    packs: tuple[str, ...]
    variables: Mapping[str, float]
    gpus: float

    def run(self, histories: Sequence[Opened], controls: Sequence[Opened]) -> tuple[Swept, ...]:
        """Every threshold on every history. Raises BadInput when no pack has the rule."""
        packs = load_packs(self.packs)
        found = {rule.name: rule for pack in packs for rule in pack.rules}
        if self.rule not in found:
            raise BadInput(f"no rule {self.rule!r}", where="--sweep", hint="rules: " + ", ".join(sorted(found)))
        derived = Pack(derived={name: d for pack in packs for name, d in pack.derived.items()})
        frames = [(opened, _frames(opened), opened in controls) for opened in (*histories, *controls)]
        return tuple(
            self._one(with_threshold(found[self.rule], threshold), threshold, derived, entry)
            for threshold in self.thresholds
            for entry in frames
        )

    def _one(self, rule: Rule, threshold: float, derived: Pack, entry: tuple[Opened, list[Row], bool]) -> Swept:
        opened, frames, control = entry
        pack = derived.model_copy(update={"rules": (rule,)})
        engine = Engine([pack], variables={**opened.variables, **self.variables}, window_scale=opened.window_scale)
        for frame in frames:
            engine.observe(frame)
        fired = engine.rules[0].fired_at
        clock = RunClock({row.step: row.time for row in frames if row.time is not None}, self.gpus)
        step = fired[0] if fired else None
        hours = None if step is None else clock.gpu_hours_left(step)
        return Swept(threshold, opened.name, control, step, hours, of_run=opened.run is not None)


def with_threshold(rule: Rule, threshold: float) -> Rule:
    """The rule with another number for `above` or `below`; a hysteresis bound is dropped with the old one."""
    side = "above" if rule.above is not None else "below" if rule.below is not None else ""
    if not side:
        raise BadInput(f"rule {rule.name} has no threshold", where="--sweep")
    return rule.model_copy(update={side: threshold, "clear": None})


def _frames(opened: Opened) -> list[Row]:
    """Everything a finished source has."""
    merging = Frames(opened.reorder_steps)
    found: list[Row] = []
    while rows := opened.source.poll():
        found += merging.add(rows)
    return [*found, *merging.flush()]
