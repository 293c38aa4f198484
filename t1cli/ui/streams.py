"""The process's standard streams: always open, never a reason to fail, and silent once nobody reads."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any, Final, TextIO

_DESCRIPTORS: Final = (0, 1, 2)
_streaming: list[bool] = []


def prepare_streams() -> None:
    """Open what was closed, and let characters that a stream's encoding lacks be spelled out instead of failing."""
    for descriptor in _DESCRIPTORS:
        # A closed one would be given to the next file that is opened, which would then receive the answer.
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave_when_unread() -> None:
    """For a command that goes on until it is stopped: once nobody reads its answer, it ends (BrokenPipeError)."""
    _streaming.append(True)


def leaves_when_unread() -> bool:
    """Whether this command ends when its reader goes; others finish silently, so that their exit code stays true."""
    return bool(_streaming)


def go_quiet(stream: Any) -> None:
    """Send what a stream still holds, and will be given, to nowhere."""
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def finish(stream: TextIO) -> None:
    """Flush an answer while its failure can still be told; a reader that has left is no failure."""
    try:
        stream.flush()
    except BrokenPipeError:
        go_quiet(stream)
