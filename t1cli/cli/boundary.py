"""The single error boundary: every command runs inside it, so exit codes mean the same everywhere."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from t1cli.cli.extras import missing_package
from t1cli.cli.interruption import raise_from_now_on
from t1cli.errors import CouldNotAsk, Diagnostic, ExitCode, T1Error
from t1cli.machine_problem import machine_problem
from t1cli.ui.console import aside, print_diagnostics
from t1cli.ui.streams import finish, go_quiet

P = ParamSpec("P")


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn a command's return value or failure into an exit code. Users never see a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(int(_exit_code(command, *args, **kwargs)))

    return run


def _exit_code(command: Callable[P, int | None], *args: P.args, **kwargs: P.kwargs) -> int:
    try:
        raise_from_now_on()
        _require_working_directory()
        code = command(*args, **kwargs) or ExitCode.YES
        finish(sys.stdout)
        return code
    except T1Error as error:
        return _told(error)
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        aside().print("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        go_quiet(sys.stdout)
        return ExitCode.YES
    except OSError as problem:
        if problem.filename is None:
            go_quiet(sys.stdout)  # what could not be written must not fail once more at exit
        known = machine_problem(problem)
        return _told(known) if known is not None else _bug(problem)
    except ModuleNotFoundError as problem:
        missing = missing_package(problem)
        return _told(missing) if missing is not None else _bug(problem)
    except Exception as bug:
        return _bug(bug)


def _told(error: T1Error) -> int:
    _show_trace_if_asked()
    print_diagnostics(error.diagnostics)
    return error.exit_code


def _bug(bug: Exception) -> int:
    _show_trace_if_asked()
    hint = "run the same command as `t1 -v …` for the traceback, and report it"
    print_diagnostics((Diagnostic(f"bug in t1: {type(bug).__name__}: {bug}", hint=hint),))
    return ExitCode.BUG


def _require_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as problem:
        raise CouldNotAsk(
            "the working directory is gone", os.environ.get("PWD", ""), "`cd` to a directory that exists"
        ) from problem


def _show_trace_if_asked() -> None:
    if os.environ.get("T1_VERBOSE"):
        aside().print(traceback.format_exc())
