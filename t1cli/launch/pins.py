"""Pinned checkpoints: a file beside a checkpoint that keeps it from being deleted. Watch and people set it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from t1cli.launch.checkpoint_manifest import iteration_directory, saved_rollouts
from t1cli.launch.json_files import read_json, write_json


def pin(role_directories: Iterable[Path], rollout: int, *, by: str, reason: str) -> None:
    """Keep the checkpoints of one rollout, all roles, whatever retention says."""
    for directory in role_directories:
        write_json(_pin_file(directory, rollout), {"by": by, "reason": reason, "time": time.time()})


def unpin(role_directories: Iterable[Path], rollout: int) -> None:
    """Give them back to retention."""
    for directory in role_directories:
        _pin_file(directory, rollout).unlink(missing_ok=True)


def pinned(role_directory: Path) -> dict[int, str]:
    """Pinned rollouts of one role with the reason of each."""
    found = {rollout: read_json(_pin_file(role_directory, rollout)) for rollout in saved_rollouts(role_directory)}
    return {rollout: str(content.get("reason", "")) for rollout, content in found.items() if content is not None}


def _pin_file(role_directory: Path, rollout: int) -> Path:
    iteration = iteration_directory(role_directory, rollout)
    return iteration.with_name(f"{iteration.name}.pinned")
