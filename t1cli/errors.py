"""The whole vocabulary of failure: one error type tree, one exit code each.

Exit codes: 0 yes, 1 no, 2 bad input, 3 could not ask, 101 a bug in t1, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self


class ExitCode(IntEnum):
    """What a t1 process answers with; the meaning is the same for every command."""

    YES = 0
    NO = 1
    BAD_INPUT = 2
    COULD_NOT_ASK = 3
    BUG = 101
    INTERRUPTED = 130


MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.YES: "yes: it fits, is ready, has finished, is healthy",
    ExitCode.NO: "no: a predicted out-of-memory, a failed or broken check, a refusal, a run that failed or is ill",
    ExitCode.BAD_INPUT: "the command line or a file you wrote is wrong; every problem is listed with its place",
    ExitCode.COULD_NOT_ASK: "a cluster, the network, a disk or a source could not be asked; trying again makes sense",
    ExitCode.BUG: "a bug in t1",
    ExitCode.INTERRUPTED: "interrupted; a detached run goes on",
}


@dataclass(frozen=True)
class Diagnostic:
    """One located message: what was found, what was expected, where, and what to do."""

    message: str
    where: str = ""
    """`file:line`, `file:line:column`, `--set` or empty."""
    source_line: str = ""
    """The text of the offending line, shown under the message."""
    hint: str = ""


class T1Error(Exception):
    """A failure that the user can act on. Users never see a traceback for it."""

    exit_code: ExitCode = ExitCode.NO

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.diagnostics: tuple[Diagnostic, ...] = (Diagnostic(message, where, hint=hint),)

    @classmethod
    def many(cls, diagnostics: tuple[Diagnostic, ...]) -> Self:
        """Several located problems as one error; `diagnostics` must not be empty."""
        error = cls(diagnostics[0].message, diagnostics[0].where, diagnostics[0].hint)
        error.diagnostics = diagnostics
        return error

    @property
    def message(self) -> str:
        return self.diagnostics[0].message


class BadInput(T1Error):
    """The command line or a file the user wrote is wrong (exit 2). Carries all problems at once."""

    exit_code = ExitCode.BAD_INPUT


class Refused(T1Error):
    """The question was answered no: a gate failed, or something safe was refused (exit 1)."""

    exit_code = ExitCode.NO


class CouldNotAsk(T1Error):
    """A cluster, the network or a source is away; trying again makes sense (exit 3)."""

    exit_code = ExitCode.COULD_NOT_ASK
