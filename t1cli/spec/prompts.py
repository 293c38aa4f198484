"""`engine.prompts`: prompts and functions of a campaign on slime's own rollout."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from t1cli.spec.block import Block


class PromptData(Block):
    """Prompts and functions of a campaign on slime's own rollout, for specs that were read from a script."""

    path: str
    """Prompt file, JSON lines or Parquet."""
    input_key: str = "input"
    """Field of a prompt."""
    label_key: str | None = None
    """Field of the expected answer."""
    metadata_key: str | None = None
    """Field handed to the reward as it is."""
    multimodal_keys: dict[str, Any] = Field(default_factory=dict)
    """Fields of images and their like."""
    apply_chat_template: bool = False
    """Whether prompts are lists of messages."""
    shuffle: bool = False
    """Draw prompts in a seeded random order."""
    reward_model: str | None = None
    """slime's built-in reward, for example `deepscaler`."""
    reward_function: str | None = None
    """Dotted path of a reward function."""
    reward_post_process: str | None = None
    """Dotted path of a function over a batch's rewards."""
    reward_url: str | None = None
    """Address of a reward server."""
    reward_key: str | None = None
    """Which number of a reward mapping counts."""
    generate_function: str | None = None
    """Dotted path of the function that generates one sample."""
    rollout_function: str | None = None
    """Dotted path of the function that generates a rollout."""
