"""`tracking`: where metrics go besides `metrics.jsonl`, which is always written."""

from __future__ import annotations

from typing import Literal

from t1cli.spec.block import Block


class WandbSpec(Block):
    """Weights & Biases. The key comes from the environment, never from this file."""

    project: str
    """Project name."""
    group: str | None = None
    """Group name; null means the experiment's name."""
    random_suffix: bool = False
    """Let slime put a random ending on the group's name."""
    mode: Literal["online", "offline"] = "online"
    """`offline` writes local files only."""


class TensorboardSpec(Block):
    """TensorBoard event files in the run directory."""

    project: str | None = None
    """Project name; null means the experiment's name."""


class TrackingSpec(Block):
    """Where metrics go besides `metrics.jsonl`, which is always written."""

    wandb: WandbSpec | None = None
    """Weights & Biases; null is off."""
    tensorboard: TensorboardSpec | None = None
    """TensorBoard; null is off."""
