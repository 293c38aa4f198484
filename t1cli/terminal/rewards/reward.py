"""What a verdict is worth under a spec's reward block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from t1cli.spec.reward import (
    AdditiveLength,
    Binary,
    CtrfCount,
    EfficiencyBonus,
    MultiplicativeLength,
    NoLengthShaping,
    PassRatio,
    Reward,
)
from t1cli.terminal.rewards.verdict import RewardResult, Verdict

_Source = Literal["ctrf", "fallback", "binary"]


def reward_of(verdict: Verdict, reward: Reward, *, turns: int, response_tokens: int) -> RewardResult:
    """The reward of one trial.

    Correctness (never negative) is passed / scale, passed / expected, or one bit; then, in this order, the length
    floor and a discount multiply it, the signed map turns it into 2c - 1, and penalties or bonuses are added.
    """
    correctness, source = _correctness(verdict, reward)
    if reward.min_response_tokens:
        correctness *= min(1.0, response_tokens / reward.min_response_tokens)
    shaped = _shape(correctness, reward, turns=turns, solved=verdict.solved)
    signed = not isinstance(reward, CtrfCount) and reward.signed
    value = (2.0 * shaped.correctness - 1.0 if signed else shaped.correctness) + shaped.added
    return RewardResult(value, source, accuracy_of(verdict), 1.0 if verdict.solved else 0.0)


@dataclass(frozen=True)
class RewardRule:
    """A spec's reward block as a function of a verdict (catalogue R7, R8)."""

    reward: Reward

    def __call__(self, verdict: Verdict, *, turns: int, response_tokens: int) -> RewardResult:
        return reward_of(verdict, self.reward, turns=turns, response_tokens=response_tokens)


def is_usable(verdict: Verdict) -> bool:
    """Whether the verdict's counts may be used; a report that disagrees with the pass/fail still counts tests.

    (catalogue R3)
    """
    return verdict.ctrf in ("ok", "disagree") and verdict.total > 0


def accuracy_of(verdict: Verdict) -> float:
    """Share of expected tests that passed; tests that never ran, as in a broken-off session, did not pass."""
    if not is_usable(verdict):
        return 1.0 if verdict.solved else 0.0
    return min(1.0, verdict.passed / max(verdict.total, verdict.expected or 0))


def _correctness(verdict: Verdict, reward: Reward) -> tuple[float, _Source]:
    solved = 1.0 if verdict.solved else 0.0
    if isinstance(reward, Binary):
        return solved, "binary"
    if not is_usable(verdict):
        return reward.fallback.value * solved, "fallback"
    if isinstance(reward, PassRatio):
        return accuracy_of(verdict), "ctrf"
    # An absolute count over a fixed scale: neither the task's own number of tests nor a baseline enters it.
    return verdict.passed / reward.scale, "ctrf"


@dataclass(frozen=True)
class _Shaped:
    correctness: float
    added: float = 0.0


def _shape(correctness: float, reward: Reward, *, turns: int, solved: bool) -> _Shaped:
    length = reward.length
    match length:
        case NoLengthShaping():
            return _Shaped(correctness)
        case MultiplicativeLength():
            over = max(0, turns - length.free_turns)
            # Our reading of "erodes correctness itself" (T1 report): it halves with every half-life beyond the free
            # zone, so more tests can never pay for rambling; with nothing passed a small penalty is left.
            penalty = length.zero_pass_penalty if over and correctness == 0.0 else 0.0
            return _Shaped(correctness * 0.5 ** (over / length.half_life_turns), -penalty)
        case AdditiveLength():
            return _Shaped(correctness, -length.penalty_per_turn * max(0, turns - length.free_turns))
        case EfficiencyBonus():
            share = max(0.0, 1.0 - turns / length.free_turns) if length.free_turns and solved else 0.0
            return _Shaped(correctness, length.bonus * share)
