"""security: files with secrets that others may read, and secrets where they would be recorded. None is ever shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from t1cli.preflight.check import Check, Context, Saw, failed, passed, warned
from t1cli.preflight.checks.pool import open_pool
from t1cli.secret_names import secrets_of

_PATH_VARIABLES = re.compile(r"(?i)(token|secret|credential|key).*(path|file)$|^netrc$")
_OTHERS = 0o077


def secret_files(context: Context) -> Saw:
    """Files that hold keys, by name and mode: readable by their owner alone."""
    places = dict.fromkeys(path for path in _secret_files(context) if path.is_file())
    wide = [path for path in places if path.stat().st_mode & _OTHERS]
    wanted = "files with keys readable by their owner alone"
    if not wide:
        return passed(f"{len(places)} files looked at", wanted)
    told = ", ".join(f"{path} (mode {path.stat().st_mode & 0o777:o})" for path in wide)
    return warned(told, wanted, "chmod 600 " + " ".join(map(str, wide)))


def _secret_files(context: Context) -> Iterator[Path]:
    home = Path.home()
    yield from (home / ".netrc", home / ".ray" / "auth_token", home / ".cache" / "huggingface" / "token")
    for name, value in context.environment.items():
        if _PATH_VARIABLES.search(name) and value.startswith("/"):
            yield Path(value)


def inherited(context: Context) -> Saw:
    """Secrets in the spec would stand in the job's environment, and in whatever logs that: a launch refuses them."""
    engine = context.spec.engine
    written = dict(engine.env) if engine.kind == "slime" else {}
    named = secrets_of(written)
    wanted = "keys in the environment of Ray's nodes, not in the spec"
    if named:
        fix = f"take {named[0]} out of engine.env and export it before `ray start` on the nodes"
        return failed(f"engine.env holds {', '.join(named)}", wanted, fix)
    present = [name for name in ("WANDB_API_KEY", "HF_TOKEN", "T1_POOL_TOKEN") if context.environment.get(name)]
    return passed(f"none in the spec; in this environment: {', '.join(present) or 'none'}", wanted)


def runs_directory(context: Context) -> Saw:
    """The run directory's place is not writable by everybody: whoever writes there can stop or forge a run."""
    place = context.runs_dir if context.runs_dir.is_dir() else context.runs_dir.parent
    wanted = "a directory that only its owner and group write to"
    if not place.is_dir() or not os.stat(place).st_mode & 0o002 or os.stat(place).st_mode & 0o1000:
        return passed(f"{place}", wanted)
    return warned(f"{place} is writable by everybody", wanted, f"chmod o-w {place}")


CHECKS = (
    Check("security.secret_files", (), secret_files),
    Check("security.inherited", (), inherited),
    Check("security.runs_directory", (), runs_directory),
    Check("security.open_pool", (), open_pool, limit_seconds=40.0),
)
