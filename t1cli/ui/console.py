"""Two consoles: stdout is the answer, stderr is everything else."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TextIO

from rich.console import Console

from t1cli.errors import Diagnostic


def _is_plain(stream: TextIO) -> bool:
    return "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not stream.isatty()


@lru_cache(maxsize=4)
def _console(stream: TextIO) -> Console:
    plain = _is_plain(stream)
    width = None if stream.isatty() else int(os.environ.get("COLUMNS", "100"))
    return Console(
        file=stream,
        color_system=None if plain else "auto",
        width=width,
        highlight=False,
        soft_wrap=not stream.isatty(),
        emoji=False,
        markup=False,
    )


def answer() -> Console:
    """stdout: the answer of a command."""
    return _console(sys.stdout)


def aside() -> Console:
    """stderr: progress, warnings and errors."""
    return _console(sys.stderr)


def print_diagnostics(diagnostics: tuple[Diagnostic, ...]) -> None:
    """Located errors on stderr: message, place, offending line, hint."""
    console = aside()
    for diagnostic in diagnostics:
        console.print(f"error: {diagnostic.message}", style="bold red" if console.is_terminal else None)
        if diagnostic.where:
            console.print(f"  --> {diagnostic.where}")
        if diagnostic.source_line:
            console.print(f"    | {diagnostic.source_line}")
        if diagnostic.hint:
            console.print(f"  hint: {diagnostic.hint}")
    if len(diagnostics) > 1:
        console.print(f"{len(diagnostics)} errors")
