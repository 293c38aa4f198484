"""The training and evaluation tasks of a spec as they are on this machine, read once per preflight."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from t1cli.errors import BadInput
from t1cli.preflight.check import Context

if TYPE_CHECKING:
    from t1cli.terminal.tasks.task import Task


def tasks_of(context: Context) -> tuple[Task, ...]:
    """Tasks that the campaign trains on. Raises BadInput with every problem of the pool."""
    return context.memo.once("tasks.training", lambda: _load(context))


def evaluation_tasks_of(context: Context) -> tuple[Task, ...]:
    """Tasks of the evaluation block; only where there is one. Raises BadInput."""
    evaluation = context.spec.evaluation
    assert evaluation is not None
    path = context.loaded.resolve_path(evaluation.path)
    return context.memo.once("tasks.evaluation", lambda: _pool(path, "harbor", ()))


def content_of(task: Task) -> str:
    """Digest of what makes a task the same task: its instruction and its tests, whatever it is called."""
    digest = hashlib.sha256(" ".join(task.instruction.split()).encode())
    for path in sorted(task.tests.rglob("*")):
        if path.is_file() and not path.is_symlink():
            digest.update(path.relative_to(task.tests).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def state_of(context: Context) -> str:
    """What the answer about a pool depends on: names, sizes and times of its files, without reading them."""
    digest = hashlib.sha256()
    root = context.tasks_path
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        found = path.lstat()
        digest.update(f"{path.relative_to(root)}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return f"{context.loaded.digest} {digest.hexdigest()}"


def _load(context: Context) -> tuple[Task, ...]:
    spec = context.spec.tasks
    return _pool(context.tasks_path, spec.layout, spec.families)


def _pool(path: Path, layout: str, families: tuple[str, ...]) -> tuple[Task, ...]:
    from t1cli.terminal.tasks.load import load_pool

    try:
        return load_pool(path, layout=layout, families=families)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}", where="tasks.path") from error
