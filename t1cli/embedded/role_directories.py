"""Where each role saves: two directories that cannot be the same one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.launch.run_directory import RunDirectory
from t1cli.spec.checkpoint import CheckpointSpec


@dataclass(frozen=True)
class RoleDirectories:
    """The checkpoint directory of each role."""

    actor: Path
    critic: Path

    def of(self, role: str) -> Path:
        """The directory of `actor` or `critic`."""
        return {"actor": self.actor, "critic": self.critic}[role]


def role_directories(spec: CheckpointSpec, run: RunDirectory) -> RoleDirectories:
    """From the spec, else the run directory. Raises BadInput when both roles would write into one place."""
    actor = Path(spec.actor_dir) if spec.actor_dir else run.actor_checkpoints
    if spec.critic_dir:
        critic = Path(spec.critic_dir)
    else:
        critic = actor.with_name(actor.name + "_critic") if spec.actor_dir else run.critic_checkpoints
    inner, outer = critic.resolve(), actor.resolve()
    if inner == outer or outer in inner.parents or inner in outer.parents:
        raise BadInput(
            f"the actor saves into {actor}, the critic into {critic}: the one saved last would replace the other",
            where="checkpoint.critic_dir",
            hint="leave checkpoint.critic_dir out, or name another directory",
        )
    return RoleDirectories(actor, critic)
