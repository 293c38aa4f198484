"""The one way to write a command that a user may paste: with the experiment and every option it came from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path


def command_line(
    command: str,
    *arguments: str,
    overrides: Sequence[str] = (),
    runs_dir: Path | str | None = None,
    more: Iterable[str] = (),
) -> str:
    """`t1 COMMAND ARGUMENTS --set … --runs-dir … MORE`, quoted for a shell; `command` may be several words.

    A `runs_dir` that t1 uses anyway is left out.
    """
    settings = [word for text in overrides for word in ("--set", text)]
    usual = runs_dir is None or absolute_runs_dir(runs_dir) == absolute_runs_dir()
    elsewhere = [] if usual else ["--runs-dir", str(runs_dir)]
    return shlex.join(["t1", *command.split(), *arguments, *settings, *elsewhere, *more])


def with_settings(overrides: Sequence[str], settings: Sequence[str]) -> tuple[str, ...]:
    """Overrides with further `KEY=VALUE` after them; one that is set anew is said once."""
    anew = {_key(text) for text in settings}
    return (*(text for text in overrides if _key(text) not in anew), *settings)


def absolute_runs_dir(option: Path | str | None = None) -> Path:
    """Where run directories go: the option, else T1_RUNS_DIR, else `./runs`."""
    # A home directory that cannot be found leaves the `~` as it is, like a shell does.
    return Path(os.path.abspath(os.path.expanduser(option or os.environ.get("T1_RUNS_DIR") or "runs")))


def _key(override: str) -> str:
    return override.partition("=")[0].strip()
