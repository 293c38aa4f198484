"""Rules as written in a pack: what is compared with what, for how long, and what follows."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

Severity = Literal["notice", "warning", "stop"]
Statistic = Literal["mean", "median", "min", "max", "last", "std"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)


class Baseline(_Part):
    """What a relative threshold is a multiple of: the run's own past."""

    of: Literal["first", "prior", "best"]
    """`first`: its first points. `prior`: the points just before the window. `best`: the best window so far."""
    points: PositiveInt
    """Points of the baseline; no verdict before it is full."""
    statistic: Statistic = "median"
    """How the points become one number."""


class Condition(_Part):
    """One comparison of one metric."""

    metric: str
    """A metric's name as it is logged, or a derived one of the pack."""
    window: PositiveInt = 1
    """Points of this metric that are aggregated."""
    aggregate: Statistic = "mean"
    """How the window becomes one number."""
    above: float | str | None = None
    """Breach when the number is larger. A string is `variable` or `variable * factor` over the spec's variables."""
    below: float | str | None = None
    """Breach when the number is smaller."""
    baseline: Baseline | None = None
    """When given, `above` and `below` are multiples of this baseline."""
    finite: bool = False
    """Breach when the value is NaN or infinite (and nothing else)."""

    @model_validator(mode="after")
    def _one_comparison(self) -> Condition:
        given = [self.above is not None, self.below is not None, self.finite]
        if sum(given) != 1:
            raise ValueError("give exactly one of above, below and finite")
        return self


class Rule(Condition):
    """A condition with patience and consequences."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    """Name in alerts."""
    for_points: PositiveInt = Field(default=1, alias="for")
    """Consecutive breaching points before the rule fires."""
    after: NonNegativeInt = 0
    """No firing before this step."""
    severity: Severity
    """`notice` and `warning` tell; `stop` may end the run when it is allowed to."""
    second_sign: tuple[Condition, ...] = ()
    """At least one of these must hold too."""
    confirmed: bool = False
    """A stop rule needs a second sign, or this explicit word that one sign is enough."""
    optional: bool = False
    """Whether the run may lack the metric."""
    catalogue: tuple[str, ...] = ()
    """Rows of the failure catalogue."""
    says: str
    """What a firing means."""
    advice: str = ""
    """What to do about it."""

    @model_validator(mode="after")
    def _stop_is_sure(self) -> Rule:
        if self.severity == "stop" and not self.second_sign and not self.confirmed:
            raise ValueError("a stop rule needs second_sign, or confirmed: true")
        return self


class Diagnosis(_Part):
    """A named cause: all its signs hold together."""

    name: str
    """The cause."""
    signs: tuple[Condition, ...] = Field(min_length=1)
    """All must hold."""
    absent_signs: tuple[Condition, ...] = ()
    """None may hold."""
    catalogue: tuple[str, ...] = ()
    """Rows of the failure catalogue."""
    advice: str
    """What to do about it."""


class Derived(_Part):
    """A metric computed from others of the same step."""

    total: str
    """Glob of the metrics that are summed."""
    needs: str
    """Glob of the metrics of which one must be present at the step; the sum is 0 when only those are there."""


class Pack(_Part):
    """A file of rules under `presets/watch/`."""

    about: str
    """What the pack looks after."""
    derived: dict[str, Derived] = Field(default_factory=dict)
    """Metrics that the pack computes."""
    rules: tuple[Rule, ...] = ()
    """Rules, evaluated in order."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """Named causes."""
