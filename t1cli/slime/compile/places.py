"""Where a campaign's checkpoints go, and from where a session of it begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from t1cli.slime.start_point import StartPoint
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.role_directories import role_directories

ROLE_FILE: Final = "roles.yaml"
"""What `--megatron-config-path` names; relative to the job's working directory, where slime's driver reads it."""
SETTINGS_FILE: Final = "t1.yaml"
"""What `--custom-config-path` names: t1's own settings for its hooks."""


@dataclass(frozen=True)
class Places:
    """Paths as the cluster's nodes see them."""

    actor_dir: str
    critic_dir: str | None
    """None for an algorithm without a critic."""
    start: StartPoint = field(default_factory=StartPoint)


def unplaced(spec: ExperimentSpec) -> Places:
    """Places of a campaign that has no run directory yet, for a plan."""
    actor, critic = role_directories(spec.checkpoint, f"runs/{spec.name}/attempt_1/checkpoints")
    return Places(actor, critic if spec.algorithm.kind == "ppo" else None)
