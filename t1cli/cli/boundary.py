"""The single error boundary: every command runs inside it, so exit codes mean the same everywhere."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from t1cli.errors import Diagnostic, ExitCode, T1Error
from t1cli.ui.console import aside, print_diagnostics

P = ParamSpec("P")


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn a command's return value or failure into an exit code. Users never see a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(int(_exit_code(command, *args, **kwargs)))

    return run


def _exit_code(command: Callable[P, int | None], *args: P.args, **kwargs: P.kwargs) -> int:
    try:
        return command(*args, **kwargs) or ExitCode.YES
    except T1Error as error:
        _show_trace_if_asked()
        print_diagnostics(error.diagnostics)
        return error.exit_code
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        aside().print("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.YES
    except Exception as bug:
        _show_trace_if_asked()
        print_diagnostics(
            (
                Diagnostic(
                    f"bug in t1: {type(bug).__name__}: {bug}",
                    hint="run the same command as `t1 -v …` for the traceback, and report it",
                ),
            )
        )
        return ExitCode.BUG


def _show_trace_if_asked() -> None:
    if os.environ.get("T1_VERBOSE"):
        aside().print(traceback.format_exc())
