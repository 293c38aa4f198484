"""Where a run's code came from: versions without importing anything, and git states that are never an error."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import t1cli

_GIT_SECONDS: Final = 5.0
_PACKAGES: Final = (
    "torch",
    "numpy",
    "ray",
    "safetensors",
    "httpx",
    "uvicorn",
    "sglang",
    "megatron-core",
    "transformers",
    "pydantic",
    "omegaconf",
    "pytest",
    "pytest-json-ctrf",
    "wandb",
    "tensorboard",
    "harbor",
)


@dataclass(frozen=True)
class GitState:
    """A checkout at one moment."""

    commit: str | None
    """Full hash; None where there is no git, no repository or no commit."""
    branch: str | None
    dirty: bool | None
    """Whether tracked files differ from the commit or untracked ones exist; None when it could not be asked."""


def installed_versions() -> dict[str, str]:
    """Versions of t1, Python and every package that a campaign depends on and that is installed."""
    versions = {"t1": t1cli.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def git_state(directory: Path) -> GitState:
    """The checkout that a directory lies in; never fails, never waits longer than a few seconds."""
    commit = _git(directory, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:
        return GitState(None, None, None)
    branch = _git(directory, "rev-parse", "--abbrev-ref", "HEAD")
    changes = _git(directory, "status", "--porcelain", "--untracked-files=normal")
    return GitState(commit, None if branch == "HEAD" else branch, None if changes is None else bool(changes))


def t1_source() -> Path:
    """The directory that this t1 is imported from."""
    return Path(t1cli.__file__).resolve().parent


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            # `--no-optional-locks`: asking must not disturb somebody else's git command in that checkout.
            ["git", "--no-optional-locks", "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
