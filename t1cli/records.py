"""Records on disk: objects that appear whole or not at all, and logs of one object a line that survive a kill."""

from __future__ import annotations

import fcntl
import json
import math
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

_BLOCK: Final = 64 * 1024
_LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes; no log of ours has a longer line, and a file without line ends is not held in memory."""


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one object aside, flush it to disk and rename it into place."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file aside, flush it to disk and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Other hosts, which may have a process of the same number, write beside this one on a shared disk.
    aside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        # A lone surrogate, as of a file name that is no UTF-8, becomes the escape that JSON has for it.
        with aside.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except BaseException as failure:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        if isinstance(failure, OSError):
            # Nobody has asked for the file aside.
            failure.filename, failure.filename2 = str(path), None
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None when the file is absent, torn or not an object."""
    content = read_regular(path)
    return _object(content) if content is not None else None


def read_regular(path: Path, at_most: int | None = None) -> bytes | None:
    """A whole file, or its first `at_most` bytes; None when no regular file is there. A pipe is never waited for."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return stream.read(-1 if at_most is None else at_most)
    except (FileNotFoundError, NotADirectoryError):
        return None


def number_in(value: object, otherwise: float = 0.0) -> float:
    """A JSON number as a finite float; `otherwise` for everything else, numbers beyond floating point included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    try:
        number = float(value)
    except OverflowError:
        return otherwise
    return number if math.isfinite(number) else otherwise


class LineLog:
    """Appends one JSON object a line; every line reaches the kernel before `append` returns.

    Several processes and threads may write to one file: a line of one never mixes with, or cuts off, another's. What a
    crash or a full disk left unfinished is put right before the next line.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._mutex = threading.Lock()

    def append(self, value: Mapping[str, Any]) -> None:
        """Add one object. Non-finite floats must have been replaced: they are a ValueError."""
        line = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str) + "\n"
        try:
            with self._mutex, _alone(self._descriptor) as alone:
                _end_last_line(self._descriptor, may_cut=alone)
                _write_all(self._descriptor, line.encode("utf-8", "backslashreplace"))
        except OSError as failure:
            # A descriptor has no name, and whoever reads of a full disk wants to know which.
            failure.filename = str(self._path)
            raise

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Add one object to a log that is written to now and then, as `LineLog.append` does."""
    log = LineLog(path)
    try:
        log.append(value)
    finally:
        log.close()


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole object of a log, in order; a torn or foreign line is passed over, an absent file is empty.

    The file is read a line at a time, however long it is.
    """
    try:
        if not path.is_file():
            return
        with path.open("rb") as stream:
            for line in _lines(stream):
                if (value := _object(line)) is not None:
                    yield value
    except (FileNotFoundError, NotADirectoryError):
        return


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(_LONGEST_LINE):
        if line.endswith(b"\n") or len(line) < _LONGEST_LINE:
            yield line
        else:
            while line and not line.endswith(b"\n"):
                line = stream.readline(_LONGEST_LINE)


def _object(content: bytes) -> dict[str, Any] | None:
    """The JSON object in a file or line; None for what is torn, foreign or nested beyond reason."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@contextmanager
def _alone(descriptor: int) -> Iterator[bool]:
    """Hold the file's lock against other processes; False where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        locked = True
    except OSError:
        locked = False
    try:
        yield locked
    finally:
        if locked:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _end_last_line(descriptor: int, *, may_cut: bool) -> None:
    """Make a log end in a newline: a torn object of ours is cut off, anything else gets its newline."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    start, line = _last_line(descriptor, size)
    if may_cut and line.startswith(b"{") and _object(line) is None:
        os.ftruncate(descriptor, start)
    else:
        _write_all(descriptor, b"\n")


def _last_line(descriptor: int, size: int) -> tuple[int, bytes]:
    """Where the last line begins, and its bytes; no bytes for one that is longer than any of ours."""
    blocks: list[bytes] = []
    start = size
    while start > 0 and size - start < _LONGEST_LINE:
        before = max(0, start - _BLOCK)
        block = os.pread(descriptor, start - before, before)
        ends = block.rfind(b"\n") + 1
        blocks.insert(0, block[ends:])
        start = before + ends
        if ends or start == 0:
            return start, b"".join(blocks)
    return size, b""


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
