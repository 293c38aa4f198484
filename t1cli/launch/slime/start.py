"""From which checkpoints a slime session goes on, told from the role directories as they are seen from here."""

from __future__ import annotations

from pathlib import Path

from t1cli.errors import Refused
from t1cli.run.checkpoint_manifest import (
    Owner,
    finished_rollout,
    problem_of,
    saved_rollouts,
    seal_finished,
    unsealed_rollouts,
)
from t1cli.run.directory import RunDirectory
from t1cli.run.rollout_number import rollout_number
from t1cli.run.save_directories import SaveDirectories, save_directories
from t1cli.slime.start_point import StartPoint
from t1cli.spec.experiment import ExperimentSpec


def owners(spec: ExperimentSpec, run: RunDirectory, family: str) -> dict[Path, Owner]:
    """The role directories of a run and whose checkpoints they may hold."""
    directories: SaveDirectories = save_directories(spec, run)
    roles = zip(("actor", "critic"), directories.every, strict=False)
    return {directory: Owner(run.name, family, str(run.path), role) for role, directory in roles}


def start_point(spec: ExperimentSpec, run: RunDirectory, family: str, *, seal: bool = True) -> StartPoint:
    """Where a resumed session begins. Raises Refused when there are checkpoints and none of them is usable.

    A critic's checkpoint without an actor's is what a crash within the critic-only phase leaves. Without `seal`
    nothing is written, and a finished save without a manifest is taken to be whole.
    """
    roles = owners(spec, run, family)
    if seal:
        for directory, owner in roles.items():
            seal_finished(directory, owner)
    whole = {d: _whole(d, owner) | set(() if seal else unsealed_rollouts(d)) for d, owner in roles.items()}
    common = max(set.intersection(*whole.values()), default=None)
    weights_only = spec.checkpoint.what == "weights"
    if common is not None:
        steps = {roles[d].role: None if finished_rollout(d) == common else common for d in roles}
        return StartPoint("resume", common, steps.get("actor"), steps.get("critic"), weights_only)
    by_role = {owner.role: directory for directory, owner in roles.items()}
    critic = by_role.get("critic")
    # An actor that was saved and is damaged now is no actor that was never saved.
    if critic is not None and whole[critic] and finished_rollout(by_role["actor"]) is None:
        newest = max(whole[critic])
        step = None if finished_rollout(critic) == newest else newest
        return StartPoint("critic_only", None, None, step, weights_only)
    _refuse_unusable(roles)
    return StartPoint("fresh")


def _whole(directory: Path, owner: Owner) -> set[int]:
    return {rollout for rollout in saved_rollouts(directory) if not problem_of(directory, rollout, owner)}


def _refuse_unusable(roles: dict[Path, Owner]) -> None:
    """What Megatron's tracker points to would be loaded, whole or not; a fresh start must not find it."""
    for directory, owner in roles.items():
        newest = finished_rollout(directory)
        if newest is not None:
            raise Refused(
                f"the {owner.role}'s checkpoint of rollout {rollout_number(newest)} cannot be used: "
                f"{problem_of(directory, newest, owner) or 'the other role has none of it'}",
                where=str(directory),
                hint="move the directory away for a new attempt, or restore the checkpoint",
            )
