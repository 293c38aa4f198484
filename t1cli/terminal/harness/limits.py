"""The budgets of one trial's agent loop, from a training or an evaluation block."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.spec.evaluation import EvaluationSpec
from t1cli.spec.rollout import RolloutSpec


@dataclass(frozen=True)
class SummaryLimits:
    """When a history is summarised, and how long its summary may be."""

    trigger_tokens: int
    max_new_tokens: int


@dataclass(frozen=True)
class Limits:
    """What one trial's agent may use."""

    context_tokens: int
    """Prompt, replies and observations together never exceed this wall."""
    max_new_tokens_per_turn: int
    max_turns: int
    observation_tokens: int
    command_timeout_seconds: float
    temperature: float
    top_p: float
    max_malformed_in_a_row: int = 3
    """Unreadable replies one after the other that end the trial."""
    summary: SummaryLimits | None = None
    """None: the trial ends at the wall."""


def training_limits(rollout: RolloutSpec) -> Limits:
    """The budgets of a training trial."""
    return Limits(
        context_tokens=rollout.context_tokens,
        max_new_tokens_per_turn=rollout.max_new_tokens_per_turn,
        max_turns=rollout.max_turns,
        observation_tokens=rollout.observation_tokens,
        command_timeout_seconds=rollout.command_timeout_seconds,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        summary=_summary_limits(rollout),
    )


def evaluation_limits(evaluation: EvaluationSpec, rollout: RolloutSpec) -> Limits:
    """The budgets of an evaluation trial: its own, and the rollout's only where it has none."""
    return Limits(
        context_tokens=evaluation.context_tokens,
        max_new_tokens_per_turn=evaluation.max_new_tokens_per_turn,
        max_turns=evaluation.max_turns,
        observation_tokens=rollout.observation_tokens,
        command_timeout_seconds=rollout.command_timeout_seconds,
        temperature=evaluation.temperature,
        top_p=1.0,
        summary=_summary_limits(rollout),
    )


def _summary_limits(rollout: RolloutSpec) -> SummaryLimits | None:
    if rollout.summary.kind == "none":
        return None
    return SummaryLimits(rollout.summary.trigger_tokens, rollout.summary.max_new_tokens)
