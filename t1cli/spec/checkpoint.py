"""`checkpoint`: what is saved, where, how often, and what is kept."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from t1cli.spec.block import Block


class Retention(Block):
    """Which finished checkpoints stay."""

    keep_latest: PositiveInt = 5
    """Newest checkpoints kept."""
    keep_best: NonNegativeInt = 1
    """Best checkpoints kept by `metric`; 0 deletes the peak of a run that later declines."""
    metric: str | None = None
    """Evaluation metric that decides which is best; null means the campaign's evaluation score."""


class CheckpointSpec(Block):
    """What is saved, where, how often, and what is kept."""

    actor_dir: str | None = None
    """Directory of the actor's checkpoints; null puts it in the run directory."""
    critic_dir: str | None = None
    """Directory of the critic's; null puts it beside the actor's. Must differ from it."""
    load_dir: str | None = None
    """Directory to continue from; null means the actor's own."""
    every_rollouts: PositiveInt = 10
    """Rollouts between saves."""
    what: Literal["weights", "full"] = "weights"
    """`weights` alone: a crash means restart. `full` adds optimizer and random state: a crash means resume."""
    retention: Retention = Retention()
    """Which finished checkpoints stay."""
