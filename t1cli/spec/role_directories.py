"""Where each role saves, and when one role would save into the other's directory (C2). Pure: no disk is asked."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath

from t1cli.spec.checkpoint import CheckpointSpec


def role_directories(checkpoint: CheckpointSpec, run_checkpoints: str) -> tuple[str, str]:
    """The actor's and the critic's directory. `run_checkpoints` holds those that the spec does not name.

    A critic without a directory saves beside an actor that has one.
    """
    named = checkpoint.actor_dir
    actor = named or f"{run_checkpoints}/actor"
    beside = f"{posixpath.normpath(actor)}_critic" if named else f"{run_checkpoints}/critic"
    return actor, checkpoint.critic_dir or beside


def share_files(actor: str, critic: str) -> bool:
    """Whether one is the other or lies in it. `..` is worked out; links are not seen: resolve them before."""
    one, other = (PurePosixPath(posixpath.normpath(path)) for path in (actor, critic))
    return one == other or one in other.parents or other in one.parents
