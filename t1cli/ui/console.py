"""Two consoles: stdout is the answer, stderr is everything else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TextIO

from rich.console import Console
from rich.text import Text

from t1cli.errors import Diagnostic
from t1cli.ui.printable import one_line, printable
from t1cli.ui.streams import go_quiet, leaves_when_unread

_DEFAULT_WIDTH: Final = 100
_MESSAGE_CHARACTERS: Final = 2000
_SOURCE_CHARACTERS: Final = 200
_DIAGNOSTICS_SHOWN: Final = 50


class _SafeConsole(Console):
    """Prints nothing that a terminal would obey, and never fails because nobody listens."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does it, with control characters of hostile text spelled out."""
        try:
            super().print(*(_made_safe(item) for item in objects), **options)
        except BrokenPipeError:
            if self.file is not sys.stderr and leaves_when_unread():
                raise
            go_quiet(self.file)
        except OSError:
            if self.file is not sys.stderr:
                raise
            go_quiet(self.file)  # what could not be complained about must not change the answer

    def on_broken_pipe(self) -> None:
        """rich would end the process with 1 here; `print` decides instead, so that the exit code stays the answer."""
        raise  # the BrokenPipeError that rich is handling


def _made_safe(item: Any) -> Any:
    if isinstance(item, str):
        return printable(item)
    if isinstance(item, Text) and printable(item.plain) != item.plain:
        return Text(printable(item.plain), style=item.style)
    return item


def _is_plain(stream: TextIO) -> bool:
    return "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not stream.isatty()


@lru_cache(maxsize=4)
def _console(stream: TextIO) -> Console:
    plain = _is_plain(stream)
    return _SafeConsole(
        file=stream,
        color_system=None if plain else "auto",
        width=None if stream.isatty() else _width(os.environ.get("COLUMNS", "")),
        highlight=False,
        soft_wrap=not stream.isatty(),
        emoji=False,
        markup=False,
    )


def _width(text: str) -> int:
    """COLUMNS where it is a sensible number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 and int(text) > 0 else _DEFAULT_WIDTH


def answer() -> Console:
    """stdout: the answer of a command."""
    return _console(sys.stdout)


def aside() -> Console:
    """stderr: progress, warnings and errors."""
    return _console(sys.stderr)


def print_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Located errors on stderr: message, place, offending line, hint; no more than a person would read."""
    console = aside()
    for diagnostic in diagnostics[:_DIAGNOSTICS_SHOWN]:
        _print_diagnostic(console, diagnostic)
    hidden = len(diagnostics) - _DIAGNOSTICS_SHOWN
    if len(diagnostics) > 1:
        console.print(f"{len(diagnostics)} errors" + (f", the last {hidden} not shown" if hidden > 0 else ""))


def _print_diagnostic(console: Console, diagnostic: Diagnostic) -> None:
    message = one_line(diagnostic.message, _MESSAGE_CHARACTERS)
    console.print(f"error: {message}", style="bold red" if console.is_terminal else None)
    if diagnostic.where:
        console.print(f"  --> {one_line(diagnostic.where, _SOURCE_CHARACTERS)}")
    if diagnostic.source_line:
        console.print(f"    | {one_line(diagnostic.source_line, _SOURCE_CHARACTERS)}")
    if diagnostic.hint:
        console.print(f"  hint: {one_line(diagnostic.hint, _MESSAGE_CHARACTERS)}")
