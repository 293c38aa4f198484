"""An answer where the user wants it: a file, a pipe, or stdout by any of its names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import typer

from t1cli.errors import BadInput

_STDOUT: Final = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
_MOST_BYTES: Final = 16 << 20
"""What is larger was not written by t1."""


def is_stdout(output: Path) -> bool:
    """Whether a path means the stream that answers go to anyway."""
    return str(output) in _STDOUT


def refuse_two_answers(output: Path | None, *, as_json: bool) -> None:
    """Raise BadInput where stdout would get a file and the one object of `--json`."""
    if as_json and output is not None and is_stdout(output):
        raise BadInput("with --json stdout is one object: the output needs a file of its own", "--output")


def put(text: str, output: Path, *, ours: Callable[[str], bool], force: bool = False, hint: str = "") -> None:
    """Write an answer. A pipe or a device is written to and never read.

    Raises BadInput for a file with another content, unless it is `ours` to replace or `force` says so.
    """
    if is_stdout(output):
        typer.echo(text, nl=False)
        return
    if not force:
        refuse_foreign(output, text, ours=ours, hint=hint)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {output}: {error.strerror}", str(output)) from error


def refuse_foreign(output: Path, text: str | None, *, ours: Callable[[str], bool], hint: str = "") -> None:
    """Raise BadInput when a file is there that is neither `text` already nor `ours`: it is somebody's work."""
    if is_stdout(output) or is_stream(output) or not os.path.lexists(output):
        return
    if output.is_dir():
        raise BadInput(f"{output} is a directory", str(output), "name a file")
    former = _content(output)
    if former is None or (former != text and former and not ours(former)):
        told = hint or "name another file, or remove it first"
        raise BadInput(f"{output} exists, and not as t1 wrote it", str(output), told)


def is_stream(path: Path) -> bool:
    """Whether a pipe, a socket or a character device is there: nothing that keeps what is written."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def _content(path: Path) -> str | None:
    """A regular file of sensible size; None for anything else."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:  # a link to nothing yet
        return ""
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", str(path)) from error
