"""Reads a run's log files, once or as they grow."""

from __future__ import annotations

import io
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from t1cli.errors import BadInput
from t1cli.run.directory import RunDirectory

FORMAT_VERSION = 1
BLOCK = 1 << 16
"""Bytes, or characters, that are held at a time: a job's log of a day has gigabytes."""


def log_files(run: RunDirectory) -> tuple[Path, ...]:
    """Every file under logs/, by name."""
    return tuple(sorted(path for path in run.logs.rglob("*") if path.is_file())) if run.logs.is_dir() else ()


def choose_log(run: RunDirectory, name: str) -> Path:
    """One log file by its name under logs/. Raises BadInput with the names there are."""
    names = {path.relative_to(run.logs).as_posix(): path for path in log_files(run)}
    if name in names:
        return names[name]
    there = ", ".join(names) or "none yet"
    raise BadInput(f"run {run.path} has no log `{name}`", where=str(run.logs), hint=f"logs there: {there}")


def last_lines(path: Path, count: int) -> Iterator[str]:
    """The last lines of a file, without their newlines."""
    with _near_the_end(path, count) as stream:
        yield from (line.rstrip("\n") for line in deque(stream, maxlen=count))


def follow(path: Path, *, count: int, goes_on: Callable[[], bool], poll_seconds: float = 0.2) -> Iterator[str]:
    """The last lines, then new ones as they are written, until the run has ended and nothing new has come."""
    with _near_the_end(path, count) as stream:
        yield from (line.rstrip("\n") for line in deque(stream, maxlen=count))
        unfinished = ""
        while True:
            alive = goes_on()  # asked before reading, so that the last lines of an ending run are not lost
            if chunk := stream.read(BLOCK):
                *lines, unfinished = (unfinished + chunk).split("\n")
                yield from lines
            elif not alive:
                break
            else:
                time.sleep(poll_seconds)
        if unfinished:
            yield unfinished


def _near_the_end(path: Path, count: int) -> io.TextIOWrapper:
    """The file as text, from where its last `count` lines begin."""
    stream = path.open("rb")
    stream.seek(_beginning_of_last(stream, count))
    return io.TextIOWrapper(stream, encoding="utf-8", errors="replace")


def _beginning_of_last(stream: BinaryIO, count: int) -> int:
    """Offset of the last `count` lines, found from the end block by block; an end without a newline is a line too."""
    at = stream.seek(0, os.SEEK_END)
    left = count + 1 if _ends_a_line(stream, at) else count
    if not count:
        return at
    while at > 0:
        begin = max(0, at - BLOCK)
        stream.seek(begin)
        block = stream.read(at - begin)
        newline = len(block)
        while (newline := block.rfind(b"\n", 0, newline)) >= 0:
            left -= 1
            if not left:
                return begin + newline + 1
        at = begin
    return 0


def _ends_a_line(stream: BinaryIO, size: int) -> bool:
    stream.seek(max(0, size - 1))
    return stream.read(1) == b"\n"
