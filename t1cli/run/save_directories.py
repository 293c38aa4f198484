"""Where each role's checkpoints go: from the spec, else inside the run directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from t1cli.records import read_json
from t1cli.run.checkpoint_manifest import unsealed_rollouts
from t1cli.run.directory import RunDirectory
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.role_directories import role_directories, share_files


@dataclass(frozen=True)
class SaveDirectories:
    """One directory per role."""

    actor: Path
    critic: Path | None
    """None for an algorithm without a critic."""

    @property
    def every(self) -> tuple[Path, ...]:
        return (self.actor,) if self.critic is None else (self.actor, self.critic)

    @property
    def share_files(self) -> bool:
        """Whether one role would write into the other's directory (catalogue C2), links seen through."""
        return self.critic is not None and share_files(str(self.actor.resolve()), str(self.critic.resolve()))


def save_directories(spec: ExperimentSpec, run: RunDirectory) -> SaveDirectories:
    """The directories that this attempt saves into; a critic without one saves beside the actor."""
    actor, critic = role_directories(spec.checkpoint, str(run.checkpoints))
    return SaveDirectories(Path(actor), Path(critic) if spec.algorithm.kind == "ppo" else None)


def newest_saved_rollout(directories: SaveDirectories) -> int | None:
    """The rollout that comes next after the newest checkpoint that is finished in every role's directory."""
    common = set.intersection(*(_iterations(directory) for directory in directories.every))
    return max(common, default=None)


def _iterations(directory: Path) -> set[int]:
    # The manifest is written last, so its presence tells a finished checkpoint from a torn one; where a crash came
    # between Megatron's last word and the manifest, its tracker tells the same.
    return {rollout + 1 for rollout in unsealed_rollouts(directory)} | {
        _next_rollout(manifest)
        for manifest in directory.glob("iter_*/manifest.json")
        if manifest.parent.name.removeprefix("iter_").isdigit()
    }


def _next_rollout(manifest: Path) -> int:
    # Megatron names a checkpoint after the rollout that was saved, the embedded engine after the one that comes next.
    said = (read_json(manifest) or {}).get("next_rollout")
    return said if isinstance(said, int) else int(manifest.parent.name.removeprefix("iter_"))
