"""Paths that an experiment on this machine names and that are not there: no cluster has to be asked for that."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Final

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.spec.locate import shown_path

_LOOKED_AT: Final = 2_000
"""Entries of a directory among which a near name is looked for."""


def missing_paths(draft: Draft) -> Iterator[Finding]:
    """T-path: what the embedded engine would read at its start. On a cluster the nodes' paths are preflight's."""
    if draft.on_slime:
        return
    for key, text, directory in _read_at_start(draft):
        path = draft.loaded.resolve_path(text)
        if not (path.is_dir() if directory else path.exists()):
            kind = "directory" if directory else "file or directory"
            message = f"{key}: no {kind} at {shown_path(path)}"
            yield draft.finding("T-path", "error", key=key, message=message, fix=_fix(key, text, path, draft))


def _read_at_start(draft: Draft) -> Iterator[tuple[str, str, bool]]:
    """Key, path, and whether it must be a directory."""
    spec = draft.spec
    yield "tasks.path", spec.tasks.path, True
    if spec.evaluation is not None:
        yield "evaluation.path", spec.evaluation.path, True
    critic = spec.model.checkpoints.warm_critic
    if critic is not None and critic != "shipped":
        yield "model.checkpoints.warm_critic", critic, False
    if spec.engine.kind == "embedded" and spec.engine.warm_start.endswith(".safetensors"):
        yield "engine.warm_start", spec.engine.warm_start, False


def _fix(key: str, text: str, path: Path, draft: Draft) -> str:
    near = _near(path)
    if near:
        meant = shlex.quote(f"{key}={Path(text).parent / near}")
        return f"did you mean --set {meant}?"
    start = shown_path(draft.loaded.path.resolve().parent)
    return f"correct {key}; a relative path starts at the experiment file's directory, {start}"


def _near(path: Path) -> str:
    """The name in the same directory that is most like the one that is missing."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _LOOKED_AT)]
    except OSError:
        return ""
    return next(iter(get_close_matches(path.name, names, n=1)), "")


RULES = (missing_paths,)
