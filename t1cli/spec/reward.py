"""`reward`: what a finished trial is worth."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from t1cli.spec.block import Block


class NoLengthShaping(Block):
    """The reward ignores length."""

    kind: Literal["none"] = "none"
    """No shaping."""


class MultiplicativeLength(Block):
    """Beyond a free zone every extra turn multiplies correctness down."""

    kind: Literal["multiplicative"] = "multiplicative"
    """Discount correctness itself."""
    free_turns: NonNegativeInt = 25
    """Turns that cost nothing."""
    half_life_turns: PositiveFloat = 40.0
    """Turns beyond the free zone that halve the reward."""
    zero_pass_penalty: NonNegativeFloat = 0.05
    """Taken off when no test passed and the free zone was exceeded."""


class AdditiveLength(Block):
    """A penalty per turn: known to make farming tests by rambling pay. Refused unless allowed."""

    kind: Literal["additive"] = "additive"
    """Subtract per turn."""
    penalty_per_turn: NonNegativeFloat
    """Taken off per turn beyond `free_turns`."""
    free_turns: NonNegativeInt = 0
    """Turns that cost nothing."""
    allow: bool = False
    """Run it anyway."""


class EfficiencyBonus(Block):
    """A bonus for short solves: only reaches what is already shortest."""

    kind: Literal["efficiency_bonus"] = "efficiency_bonus"
    """Add for short solves."""
    bonus: NonNegativeFloat
    """Added in full to a solve of zero turns, falling to 0 at `free_turns`."""
    free_turns: NonNegativeInt = 25
    """Turns at which the bonus is gone."""


Length = Annotated[
    NoLengthShaping | MultiplicativeLength | AdditiveLength | EfficiencyBonus, Field(discriminator="kind")
]


class Fallback(Block):
    """What replaces a missing, empty or unreadable CTRF report."""

    kind: Literal["binary"] = "binary"
    """The verifier's own pass/fail."""
    value: PositiveFloat = 1.0
    """Reward of a solved task without a report."""
    max_share: float = Field(default=0.1, ge=0.0, le=1.0)
    """Largest share of a rollout's reward that may come from fallbacks."""


class CtrfCount(Block):
    """Dense reward: passed tests over a fixed scale. An absolute count, never a ratio."""

    kind: Literal["ctrf_count"] = "ctrf_count"
    """passed / scale."""
    scale: PositiveFloat = 20.0
    """The fixed S; about the 90th percentile of tests per task."""
    scale_per_batch: bool = False
    """Divide by the batch's maximum instead: makes the critic's target drift, an error under PPO."""
    fallback: Fallback = Fallback()
    """For trials without a usable report."""
    length: Length = NoLengthShaping()
    """Length shaping."""
    min_response_tokens: NonNegativeInt = 0
    """Length floor on the non-negative part; 0 is off."""


class PassRatio(Block):
    """Passed over expected tests: for group baselines."""

    kind: Literal["pass_ratio"] = "pass_ratio"
    """passed / expected."""
    signed: bool = False
    """Map to 2 x ratio - 1."""
    fallback: Fallback = Fallback()
    """For trials without a usable report."""
    length: Length = NoLengthShaping()
    """Length shaping."""
    min_response_tokens: NonNegativeInt = 0
    """Length floor on the non-negative part, before the signed map; 0 is off."""


class Binary(Block):
    """One bit: the verifier's own pass/fail."""

    kind: Literal["binary"] = "binary"
    """1 when solved."""
    signed: bool = False
    """Map to 2 x solved - 1."""
    length: Length = NoLengthShaping()
    """Length shaping."""
    min_response_tokens: NonNegativeInt = 0
    """Length floor on the non-negative part; 0 is off."""


Reward = Annotated[CtrfCount | PassRatio | Binary, Field(discriminator="kind")]
