"""The single error boundary: every command runs inside it, so exit codes mean the same everywhere."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Final, ParamSpec

import typer

from t1cli.cli.extras import missing_package
from t1cli.errors import BadInput, CouldNotAsk, Diagnostic, ExitCode, T1Error
from t1cli.ui.console import aside, print_diagnostics
from t1cli.ui.streams import finish, go_quiet

P = ParamSpec("P")

_NO_SUCH_INPUT: Final = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR}
"""The user named something that no file can be."""
_ENVIRONMENT: Final = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.ESTALE,
    errno.EBADF,
}
"""The machine said no; t1 did nothing wrong, and the same command works once the machine allows it."""


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn a command's return value or failure into an exit code. Users never see a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(int(_exit_code(command, *args, **kwargs)))

    return run


def _exit_code(command: Callable[P, int | None], *args: P.args, **kwargs: P.kwargs) -> int:
    try:
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
        known = _machine_problem(problem)
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


def _machine_problem(problem: OSError) -> T1Error | None:
    """What no room handled, as long as it is the fault of a name or of the machine and not of t1."""
    path = os.fsdecode(problem.filename) if isinstance(problem.filename, str | bytes) else ""
    reason = problem.strerror or str(problem)
    # A directory was to be made where a file lies.
    in_the_way = problem.errno == errno.EEXIST and os.path.exists(path) and not os.path.isdir(path)
    if problem.errno in _NO_SUCH_INPUT or in_the_way:
        return BadInput(f"no file can be used at {path or 'a path that was given'}: {reason}", path, "name another")
    if problem.errno in _ENVIRONMENT:
        what = f"cannot use {path}" if path else "cannot write the answer or use a file"
        return CouldNotAsk(f"{what}: {reason}", path, "the same command works once the machine allows it")
    return None


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
