"""Manifests of Megatron checkpoints: which files a finished `iter_N` has, whose it is, and whether it still is whole.

Megatron writes `iter_N/` over minutes and moves `latest_checkpointed_iteration.txt` last, so that an iteration above
the tracker's number may be half-written. A manifest is written behind that, and nothing without a valid one is resumed
from or counted as a copy.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from t1cli.records import read_json, write_json

FORMAT_VERSION = 1
MANIFEST: Final = "manifest.json"
TRACKER: Final = "latest_checkpointed_iteration.txt"
_SHARD: Final = ".distcp"
_INDEX: Final = ".metadata"
"""What torch's distributed checkpoints are read by; a save that an earlier session broke off has none."""
_WHOLE_BYTES: Final = 4 * 2**20
"""Files up to this size are hashed whole, larger ones at both ends: hashing terabytes would outlast a rollout."""


@dataclass(frozen=True)
class Owner:
    """Whose checkpoints these are."""

    campaign: str
    family: str
    """Digest of what makes two sessions the same campaign."""
    run_dir: str
    role: str


def iteration_directory(role_directory: Path, rollout: int) -> Path:
    """Where Megatron puts the checkpoint of a rollout."""
    return role_directory / f"iter_{rollout:07d}"


def finished_rollout(role_directory: Path) -> int | None:
    """The newest rollout whose checkpoint Megatron says it has finished; None before the first."""
    try:
        return int((role_directory / TRACKER).read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return None


def saved_rollouts(role_directory: Path) -> tuple[int, ...]:
    """Rollouts with a checkpoint directory, finished or not, in order."""
    if not role_directory.is_dir():
        return ()
    names = (entry.name.removeprefix("iter_") for entry in role_directory.glob("iter_*"))
    return tuple(sorted(int(name) for name in names if name.isdigit()))


def seal_finished(role_directory: Path, owner: Owner) -> tuple[int, ...]:
    """Write the missing manifests of finished checkpoints; returns their rollouts."""
    return tuple(rollout for rollout in unsealed_rollouts(role_directory) if seal(role_directory, rollout, owner) == "")


def unsealed_rollouts(role_directory: Path) -> tuple[int, ...]:
    """Rollouts whose checkpoint Megatron has finished and that have no manifest yet."""
    newest = finished_rollout(role_directory)
    if newest is None:
        return ()
    return tuple(
        rollout
        for rollout in saved_rollouts(role_directory)
        if rollout <= newest and not (iteration_directory(role_directory, rollout) / MANIFEST).exists()
    )


def seal(role_directory: Path, rollout: int, owner: Owner) -> str:
    """Write one manifest and read everything back; returns what was wrong, and then leaves no manifest."""
    directory = iteration_directory(role_directory, rollout)
    files = {name: _fingerprint(directory / name) for name in _file_names(directory)}
    if not files:
        return "the directory is empty"
    if any(name.endswith(_SHARD) for name in files) and _INDEX not in files:
        return f"it has shards and no {_INDEX}, which is written after all of them"
    manifest = {
        "format_version": FORMAT_VERSION,
        "campaign": owner.campaign,
        "family": owner.family,
        "run_dir": owner.run_dir,
        "role": owner.role,
        "rollout": rollout,
        # The number that every engine's checkpoints are compared by.
        "next_rollout": rollout + 1,
        "files": files,
    }
    write_json(directory / MANIFEST, manifest)
    problem = problem_of(role_directory, rollout, owner)
    if problem:
        (directory / MANIFEST).unlink(missing_ok=True)
    return problem


def problem_of(role_directory: Path, rollout: int, owner: Owner) -> str:
    """Why a checkpoint must not be resumed from; empty when it is whole and this campaign's."""
    directory = iteration_directory(role_directory, rollout)
    manifest = read_json(directory / MANIFEST)
    if manifest is None:
        return "no manifest: it was never finished, or something else wrote it"
    if manifest.get("family") != owner.family or manifest.get("campaign") != owner.campaign:
        return f"it belongs to campaign `{manifest.get('campaign')}` ({manifest.get('run_dir')})"
    if manifest.get("role") != owner.role:
        return f"it holds the {manifest.get('role')}, not the {owner.role}"
    return _damage(directory, manifest.get("files"))


def _damage(directory: Path, files: Any) -> str:
    if not isinstance(files, dict) or not files:
        return "its manifest names no files"
    for name, recorded in files.items():
        try:
            found = _fingerprint(directory / name)
        except OSError as problem:
            return f"{name}: {problem.strerror or problem}"
        if found != recorded:
            return f"{name} has changed since it was saved"
    return ""


def _file_names(directory: Path) -> Iterator[str]:
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name != MANIFEST and (path.name == _INDEX or not path.name.startswith(".")):
            yield name


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest = hashlib.sha256(str(size).encode())
        if size <= _WHOLE_BYTES:
            digest.update(stream.read())
        else:
            digest.update(stream.read(_WHOLE_BYTES // 2))
            stream.seek(-_WHOLE_BYTES // 2, os.SEEK_END)
            digest.update(stream.read())
    return {"bytes": size, "sha256": digest.hexdigest(), "whole": size <= _WHOLE_BYTES}
