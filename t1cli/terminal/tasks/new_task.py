"""A task to begin with: small, solvable, counted test by test, and meant to be rewritten."""

from __future__ import annotations

from pathlib import Path

from t1cli.errors import BadInput, CouldNotAsk, Refused
from t1cli.terminal.tasks.harbor_writer import HarborFiles, write_files
from t1cli.terminal.tasks.load import is_task_name


def new_task(path: Path) -> None:
    """Write the task to `path`. Raises Refused when there is something, BadInput for a name that no task can have."""
    if not is_task_name(path.name):
        raise BadInput(f"task name {path.name!r}", str(path), "letters, digits, dots, dashes, underscores")
    if path.exists() or path.is_symlink():
        raise Refused(f"{path} exists and is left alone", str(path), "name another")
    try:
        write_files(_example(path.name), path)
    except OSError as error:
        raise CouldNotAsk(f"cannot write {path}: {error.strerror}", str(path)) from error


def _example(name: str) -> HarborFiles:
    return HarborFiles(
        name=name,
        family="own",
        difficulty=1,
        instruction="1. Write the line done to answer.txt.\n",
        setup_files={},
        solution=("echo done > answer.txt",),
        checks=(("answer", ("text('answer.txt') == 'done\\n'",)),),
        declares_tests=False,
    )
