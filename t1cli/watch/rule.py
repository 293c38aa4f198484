"""Rules as written in a pack: what is compared with what, for how long, and what follows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from t1cli.errors import BadInput
from t1cli.spec.block import Block
from t1cli.watch.expression import parse

Severity = Literal["notice", "warning", "stop"]
Statistic = Literal["mean", "median", "min", "max", "last", "std", "p10", "p90", "slope", "count", "frac_true"]


class _Part(Block):
    model_config = ConfigDict(populate_by_name=True)


class Baseline(_Part):
    """What a relative threshold is a multiple of."""

    of: Literal["first", "prior", "best", "run"]
    """`first`: the run's first points. `prior`: the points just before the window. `best`: its best stretch so far.
    `run`: another run's points up to the same step."""
    points: PositiveInt
    """Points of the baseline; no verdict before it is full."""
    skip: NonNegativeInt = 0
    """With `first`: points left out before it begins (a base model's first hundred steps are not its normal)."""
    statistic: Statistic = "median"
    """How the points become one number."""
    run: str = ""
    """With `run`: the other run's name or file."""

    @model_validator(mode="after")
    def _names_a_run(self) -> Baseline:
        if (self.of == "run") != bool(self.run):
            raise ValueError("`run` goes with `of: run`, and only with it")
        return self


class SampleSize(_Part):
    """A point counts only when it was taken over enough samples; a skipped point moves no patience."""

    metric: str
    """Metric with the number of samples at the same step."""
    at_least: float
    """Smallest number that counts."""


class Condition(_Part):
    """One comparison of one metric."""

    metric: str
    """A canonical metric, a name as it is logged, or a derived one of the pack."""
    window: PositiveInt = 1
    """Points of this metric that are aggregated."""
    aggregate: Statistic = "mean"
    """How the window becomes one number. `slope` is per point; `frac_true` the share of values that are not 0."""
    above: float | str | None = None
    """Breach when the number is larger. A string is an expression over the spec's variables."""
    below: float | str | None = None
    """Breach when the number is smaller."""
    baseline: Baseline | None = None
    """When given, `above` and `below` are multiples of this baseline."""
    finite: bool = False
    """Breach when the value is NaN or infinite (and nothing else)."""
    absent: bool = False
    """Breach when no point has come for three of the metric's own cadences while other metrics went on."""
    min_points: NonNegativeInt = 0
    """No verdict before the metric has this many points (with `absent`: before the run has this many steps)."""
    min_n: SampleSize | None = None
    """Skips points that were taken over too few samples."""

    @model_validator(mode="after")
    def _one_comparison(self) -> Condition:
        given = [self.above is not None, self.below is not None, self.finite, self.absent]
        if sum(given) != 1:
            raise ValueError("give exactly one of `above`, `below`, `finite` and `absent`")
        for written in (self.above, self.below):
            if isinstance(written, str):
                _check_expression(written)
        return self

    @property
    def point_of(self) -> str:
        """Name of the series that is judged: the metric, or its points with enough samples."""
        return f"{self.metric}|{self.min_n.metric}>={self.min_n.at_least:g}" if self.min_n else self.metric


class Rule(Condition):
    """A condition with patience and consequences."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """Name in alerts."""
    for_points: PositiveInt = Field(default=1, alias="for")
    """Breaching points before the rule fires: in a row, or among the last `of`."""
    of: PositiveInt | None = None
    """Makes the patience `for` of `of` points."""
    after: NonNegativeInt = 0
    """No firing before this step."""
    until: PositiveInt | None = None
    """No firing from this step on."""
    clear: float | str | None = None
    """Hysteresis: a firing rule recovers only when the number is back beyond this (a multiple, with a baseline)."""
    recover: PositiveInt = 1
    """Points in a row beyond `clear` before a firing rule has recovered."""
    on_missing: Literal["hold", "breach", "ok", "alert"] = "hold"
    """What it means when the metric is overdue by three cadences: nothing, a breach, a good point, a notice."""
    reset_on_resume: bool = False
    """Whether a frozen baseline is forgotten when the run is resumed at an earlier step."""
    severity: Severity = "warning"
    """`notice` and `warning` tell; `stop` may end the run when it is allowed to."""
    also: tuple[Condition, ...] = ()
    """All of these must hold too (a relative and an absolute bound together)."""
    second_sign: tuple[Condition, ...] = ()
    """At least one of these must hold too."""
    actions: tuple[Literal["pause"], ...] = ()
    """What may be done beside telling: `pause` holds the next rollout, when `--allow-pause` is given."""
    confirmed: bool = False
    """A stop rule needs a second sign, or this explicit word that one sign is enough."""
    optional: bool = False
    """Whether the run may lack the metric."""
    settles: bool = False
    """Whether a run is too short to be called healthy until this rule, or another that settles, could have fired."""
    catalogue: tuple[str, ...] = ()
    """Rows of the failure catalogue."""
    says: str = ""
    """What a firing means."""
    advice: str = ""
    """What to do about it."""

    @model_validator(mode="after")
    def _is_coherent(self) -> Rule:
        if self.severity == "stop" and not self.second_sign and not self.confirmed:
            raise ValueError("a stop rule needs `second_sign`, or `confirmed: true` where one sign is enough")
        if self.of is not None and self.of < self.for_points:
            raise ValueError(f"`for: {self.for_points}` of `of: {self.of}` points: `of` must not be smaller")
        if self.clear is not None and (self.finite or self.absent):
            raise ValueError("`clear` goes with `above` or `below`")
        return self


class Diagnosis(_Part):
    """A named cause: all its signs hold together."""

    name: str
    """The cause."""
    signs: tuple[Condition, ...] = Field(min_length=1)
    """All must hold."""
    any_signs: tuple[Condition, ...] = ()
    """When given, at least one must hold."""
    absent_signs: tuple[Condition, ...] = ()
    """None may hold."""
    for_steps: PositiveInt = Field(default=1, alias="for")
    """Steps in a row for which it must hold."""
    until: PositiveInt | None = None
    """Not looked for from this step on."""
    healthy: bool = False
    """A reading that is good news."""
    catalogue: tuple[str, ...] = ()
    """Rows of the failure catalogue."""
    advice: str
    """What to do about it."""
    advice_on_one_machine: str = ""
    """Instead of `advice` where the campaign runs on the embedded engine, which has no GPUs to add."""


class Derived(_Part):
    """A metric computed from others of the same step."""

    expression: str
    """Safe arithmetic; the metric is absent at a step where something it needs is."""
    needs: str = ""
    """Glob of the metrics of which one must be there at the step."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        return {"expression": written} if isinstance(written, str) else written

    @model_validator(mode="after")
    def _parses(self) -> Derived:
        _check_expression(self.expression)
        return self


class Pack(_Part):
    """A file of rules under `presets/watch/`."""

    about: str = ""
    """What the pack looks after."""
    derived: dict[str, Derived] = Field(default_factory=dict)
    """Metrics that the pack computes."""
    rules: tuple[Rule, ...] = ()
    """Rules, evaluated in order."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """Named causes."""


def _check_expression(text: str) -> None:
    """Raises ValueError, which names the field, for text that is no expression."""
    try:
        parse(text)
    except BadInput as error:
        raise ValueError(f"{error.message} ({error.diagnostics[0].hint})") from error
