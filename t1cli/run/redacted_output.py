"""What a process prints, without secrets: `logs/process.log` holds what Python wrote to stdout and stderr."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import BinaryIO, Final, TextIO

from t1cli.run.redaction import LineRedactor, Redactor

_LONGEST_LINE: Final = 65_536
"""Characters that wait for the end of their line; a progress bar never ends its own."""


@contextmanager
def redacted_output() -> Iterator[None]:
    """Redact what this process prints until the end of the block, line by line."""
    redactor = Redactor.of_environment()
    out, err = RedactedStream(sys.stdout, redactor), RedactedStream(sys.stderr, redactor)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        out.finish()
        err.finish()


class RedactedStream(io.TextIOBase):
    """Passes whole lines on to another stream, without what is secret in them."""

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream, self._redactor = stream, LineRedactor(redactor)
        self._unfinished = ""
        self._one_at_a_time = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The other stream's."""
        return self._stream.encoding

    @property
    def buffer(self) -> BinaryIO:
        """The other stream's: what is written there directly is not redacted."""
        return self._stream.buffer

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Whether the other stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The other stream's: what is written there directly is not redacted."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Take text; lines that are whole now go on."""
        with self._one_at_a_time:
            *lines, self._unfinished = (self._unfinished + text).split("\n")
            for line in lines:
                self._stream.write(self._redactor.line(line) + "\n")
            if len(self._unfinished) > _LONGEST_LINE:
                self.finish()
            if lines:
                self._stream.flush()
        return len(text)

    def finish(self) -> None:
        """Pass on what has no end of line yet."""
        with self._one_at_a_time:
            rest, self._unfinished = self._unfinished, ""
            if rest:
                self._stream.write(self._redactor.line(rest))
            self._stream.flush()
