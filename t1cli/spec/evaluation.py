"""`evaluation`: the task set, cadence and budgets of evaluation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class Reference(Block):
    """A published figure to compare with, and the budgets it was obtained under."""

    name: str
    """Whose figure it is."""
    context_tokens: PositiveInt
    """Context of the compared system."""
    max_new_tokens_per_turn: PositiveInt
    """Output limit of the compared system."""


class EvaluationSpec(Block):
    """The task set, cadence and budgets of evaluation. Its budgets never come from `rollout`."""

    name: str
    """Name of the task set in metrics."""
    path: str
    """Directory of the task set."""
    num_tasks: PositiveInt
    """Tasks scheduled; scored must equal scheduled."""
    repeats: PositiveInt = 3
    """Trials per task."""
    every_rollouts: PositiveInt | None = None
    """Cadence in rollouts; null means with every checkpoint."""
    before_training: bool = True
    """Evaluate once before the first step."""
    context_tokens: PositiveInt
    """Context wall of an evaluation trial."""
    max_new_tokens_per_turn: PositiveInt
    """Limit of one reply."""
    max_turns: PositiveInt
    """Turns of a trial."""
    thinking: Literal["off", "on"] = "off"
    """Whether the chat template lets the model think."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """Nucleus sampling; null means as in training."""
    infrastructure_retries: NonNegativeInt = 2
    """Retries of a trial that the infrastructure lost."""
    reference: Reference | None = None
    """A published figure under other budgets; unequal budgets are marked wherever both are shown."""
