"""Checkpoints of one role: a directory per iteration, written aside, then renamed; a half-written one is never taken.

`<role dir>/iter_0000003/{model.safetensors, optimizer.safetensors, manifest.json}` and `<role dir>/latest`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from errno import ENOENT
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from t1cli.embedded.model import TinyMoEConfig
from t1cli.embedded.weights import WEIGHTS_FILE, read_config, save_tensors, save_weights
from t1cli.errors import T1Error
from t1cli.records import read_json
from t1cli.run.pins import pinned

FORMAT_VERSION = 1
LATEST = "latest"
MANIFEST = "manifest.json"
OPTIMIZER = "optimizer.safetensors"

_ITERATION = re.compile(r"^iter_(\d{7})$")
_ASIDE = ".writing-"


@dataclass(frozen=True)
class Progress:
    """Where the campaign stood when a checkpoint was taken."""

    next_rollout: int
    """The rollout that comes next; it is also the checkpoint's iteration number."""
    weight_version: int
    """Version of the saved actor weights."""
    score: float | None = None
    """What retention compares; None when nothing was measured."""


@dataclass(frozen=True)
class RoleState:
    """Everything that is saved of one role."""

    role: str
    config: TinyMoEConfig
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor] | None
    """Adam's moments and the random state; None when weights alone are kept."""
    progress: Progress


def write_checkpoint(directory: Path, state: RoleState) -> Path:
    """Save one iteration and move `latest` to it. A crash at any point leaves the previous checkpoints as they were."""
    directory.mkdir(parents=True, exist_ok=True)
    final = directory / _name(state.progress.next_rollout)
    aside = directory / f"{_ASIDE}{final.name}-{os.getpid()}"
    _remove_leftovers(directory)
    aside.mkdir()
    with _gone_if_refused(aside):
        _write_files(aside, state)
        _move_into_place(aside, final)
    _sync(directory)
    _point_latest(directory, final.name)
    return final


@contextlib.contextmanager
def _gone_if_refused(aside: Path) -> Iterator[None]:
    """A full disk does not stay full because of half a checkpoint."""
    try:
        yield
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _write_files(aside: Path, state: RoleState) -> None:
    save_weights(aside / WEIGHTS_FILE, state.weights, state.config)
    if state.optimizer is not None:
        save_tensors(aside / OPTIMIZER, state.optimizer)
    for path in aside.iterdir():
        _sync(path)
    # The manifest comes last: it names every other file with its size and checksum.
    _write_text(aside / MANIFEST, json.dumps(_manifest(aside, state), indent=1))
    _sync(aside)


def _move_into_place(aside: Path, final: Path) -> None:
    """The same iteration once more, as an interruption behind a due save does, never takes the whole one away."""
    if _is_whole(final) and _same_tensors(aside, final):
        told = _read_manifest(final) | {"progress": _read_manifest(aside)["progress"]}
        _write_text(aside / MANIFEST, json.dumps(told, indent=1))
        (aside / MANIFEST).replace(final / MANIFEST)
        _sync(final)
        shutil.rmtree(aside)
    else:
        # Other files under this number are torn, or of a branch that no resume could take.
        _discard(final)
        aside.rename(final)


def _same_tensors(one: Path, other: Path) -> bool:
    """By content: safetensors writes a header's entries in any order, so equal states differ in their bytes."""
    names = {path.name for path in one.glob("*.safetensors")}
    if names != {path.name for path in other.glob("*.safetensors")}:
        return False
    for name in names:
        here, there = load_file(one / name), load_file(other / name)
        if here.keys() != there.keys() or not all(torch.equal(here[key], there[key]) for key in here):
            return False
    return True


def complete_iterations(directory: Path) -> tuple[int, ...]:
    """Iterations, oldest first, whose files are all there with the recorded checksums."""
    if not directory.is_dir():
        return ()
    found = (match for match in (_ITERATION.match(entry.name) for entry in directory.iterdir()) if match)
    return tuple(sorted(int(match[1]) for match in found if _is_whole(directory / match[0])))


def newest_common(directories: Sequence[Path]) -> int | None:
    """The newest iteration that every role has complete; None when there is none."""
    common = set.intersection(*(set(complete_iterations(directory)) for directory in directories))
    return max(common, default=None)


def read_checkpoint(directory: Path, iteration: int, *, role: str) -> RoleState:
    """Load one iteration. Raises T1Error when it is another role's or is not whole."""
    path = directory / _name(iteration)
    if not _is_whole(path):
        raise T1Error(f"checkpoint {path} is not complete", hint="an older iteration of the same directory")
    manifest = _read_manifest(path)
    if manifest["role"] != role:
        raise T1Error(f"checkpoint {path} holds the {manifest['role']}, the {role} was asked for")
    optimizer = path / OPTIMIZER
    return RoleState(
        role=role,
        config=read_config(path),
        weights=load_file(path / WEIGHTS_FILE),
        optimizer=load_file(optimizer) if optimizer.exists() else None,
        progress=Progress(**manifest["progress"]),
    )


def prune(directories: Sequence[Path], *, keep_latest: int, keep_best: int) -> tuple[int, ...]:
    """Delete iterations that are neither among the newest nor the best-scored nor pinned; returns the deleted numbers.

    Call it after every role has been saved, so that a common iteration always stays.
    """
    iterations = complete_iterations(directories[0])
    scored = [(score, number) for number in iterations if (score := _score(directories[0], number)) is not None]
    best = sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:keep_best]
    kept = set(iterations[-keep_latest:]) | {number for _, number in best} | pinned(directories)
    gone = tuple(number for number in iterations if number not in kept)
    for number in gone:
        for directory in directories:
            # Renamed first: a crash in the middle of the deletion must not leave a directory that looks whole.
            _discard(directory / _name(number))
    return gone


def _name(iteration: int) -> str:
    return f"iter_{iteration:07d}"


def _manifest(aside: Path, state: RoleState) -> dict[str, object]:
    files = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in sorted(aside.iterdir())}
    return {
        "format_version": FORMAT_VERSION,
        "role": state.role,
        "what": "weights" if state.optimizer is None else "full",
        "progress": asdict(state.progress),
        "files": files,
    }


def _is_whole(path: Path) -> bool:
    """Whether a directory has a manifest of ours and every file as it says; a foreign one has not."""
    try:
        manifest = _read_manifest(path)
        return all(_sha256(path / name) == facts["sha256"] for name, facts in manifest["files"].items())
    except (OSError, ValueError):
        return False


def _read_manifest(path: Path) -> dict[str, Any]:
    """A manifest that has everything that is read of one. Raises ValueError for any other."""
    manifest = read_json(path / MANIFEST) or {}
    if manifest.get("format_version") != FORMAT_VERSION or not isinstance(manifest.get("role"), str):
        raise ValueError(f"{path / MANIFEST} is no manifest of format {FORMAT_VERSION}")
    files, progress = manifest.get("files"), manifest.get("progress")
    if not isinstance(files, dict) or not all(isinstance(file, dict) and "sha256" in file for file in files.values()):
        raise ValueError(f"{path / MANIFEST} names no files")
    if not isinstance(progress, dict) or not _is_progress(progress):
        raise ValueError(f"{path / MANIFEST} does not say where the campaign stood")
    return manifest


def _is_progress(found: dict[str, Any]) -> bool:
    score = found.get("score")
    is_scored = score is None or (isinstance(score, int | float) and not isinstance(score, bool))
    numbers = all(type(found.get(name)) is int for name in ("next_rollout", "weight_version"))
    return is_scored and numbers and found.keys() <= {"next_rollout", "weight_version", "score"}


def _score(directory: Path, iteration: int) -> float | None:
    score = _read_manifest(directory / _name(iteration))["progress"].get("score")
    return None if score is None else float(score)


def _sha256(path: Path) -> str:
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(ENOENT, "no such file", str(path))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def _point_latest(directory: Path, name: str) -> None:
    aside = directory / f"{_ASIDE}{LATEST}"
    _write_text(aside, name + "\n")
    aside.replace(directory / LATEST)
    _sync(directory)


def _remove_leftovers(directory: Path) -> None:
    for entry in directory.glob(f"{_ASIDE}*"):
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _discard(path: Path) -> None:
    if path.exists():
        aside = path.with_name(f"{_ASIDE}{path.name}-gone")
        path.rename(aside)
        shutil.rmtree(aside)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
