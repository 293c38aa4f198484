"""Before anything is trained: every role saves into a directory of its own, and that directory is this run's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from t1cli.errors import Refused
from t1cli.plugin.settings import Settings
from t1cli.run.checkpoint_manifest import Owner
from t1cli.run.claims import claim
from t1cli.run.save_directories import SaveDirectories


def owner_of(settings: Settings, role: str) -> Owner:
    """Whose checkpoints a role of this job writes."""
    return Owner(settings.run.name, settings.family, str(settings.run.path), role)


def assert_own_directories(args: Any, settings: Settings) -> None:
    """Raises Refused when roles share files (C2), when slime would save elsewhere than planned, or into others' files.

    slime itself checks nothing: without a critic `save` override both roles write the same `iter_N`, the critic last.

    (catalogue C2)
    """
    if not getattr(args, "save", None):
        return
    directories = directories_in_use(args)
    if directories.share_files:
        raise Refused(
            f"C2: actor and critic would both save below {directories.actor}; the critic saves last",
            where=str(getattr(args, "megatron_config_path", None)),
            hint="a `save` of its own in the critic's overrides",
        )
    expected = SaveDirectories(settings.actor_dir, settings.critic_dir)
    if directories != expected:
        raise Refused(f"slime would save to {_shown(directories)}, the launch planned {_shown(expected)}")
    for role, directory in _by_role(directories).items():
        claim(directory, owner_of(settings, role))


def directories_in_use(args: Any) -> SaveDirectories:
    """Where slime's namespace and its role file make each role save."""
    overrides = _overrides(getattr(args, "megatron_config_path", None))
    actor = Path(overrides.get("actor", {}).get("save", args.save))
    if getattr(args, "advantage_estimator", None) != "ppo":
        return SaveDirectories(actor, None)
    return SaveDirectories(actor, Path(overrides.get("critic", {}).get("save", args.save)))


def _overrides(path: str | None) -> dict[str, Mapping[str, Any]]:
    if not path:
        return {}
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    return {entry["role"]: entry.get("overrides") or entry.get("args") or {} for entry in content.get("megatron", ())}


def _by_role(directories: SaveDirectories) -> dict[str, Path]:
    return dict(zip(("actor", "critic"), directories.every, strict=False))


def _shown(directories: SaveDirectories) -> str:
    return " and ".join(str(directory) for directory in directories.every)
