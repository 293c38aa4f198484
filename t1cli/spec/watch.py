"""`watch`: which rules look after the run, and what they may do."""

from __future__ import annotations

from typing import Any

from pydantic import Field, NonNegativeInt, PositiveFloat

from t1cli.spec.block import Block


class WatchSpec(Block):
    """Which rules look after the run, and what they may do."""

    packs: tuple[str, ...] = ()
    """Rule packs from `presets/watch/`, in order."""
    rules: tuple[dict[str, Any], ...] = ()
    """Rules of this campaign alone, in the format of a pack's rules."""
    window_scale: PositiveFloat = Field(default=1.0, le=1.0)
    """Shrinks every window, for campaigns of a few dozen steps."""
    allow_stop: bool = False
    """Whether a stop rule may really stop the run."""
    protect_first_rollouts: NonNegativeInt = 30
    """No rule stops a run before this rollout."""
