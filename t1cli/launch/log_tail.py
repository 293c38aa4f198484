"""Reads a run's log files, once or as they grow."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.launch.run_directory import RunDirectory

FORMAT_VERSION = 1


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
    with path.open(encoding="utf-8", errors="replace") as stream:
        yield from (line.rstrip("\n") for line in deque(stream, maxlen=count))


def follow(path: Path, *, count: int, goes_on: Callable[[], bool], poll_seconds: float = 0.2) -> Iterator[str]:
    """The last lines, then new ones as they are written, until the run has ended and nothing new has come."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        yield from (line.rstrip("\n") for line in deque(stream, maxlen=count))
        unfinished = ""
        while True:
            alive = goes_on()  # asked before reading, so that the last lines of an ending run are not lost
            if chunk := stream.read():
                *lines, unfinished = (unfinished + chunk).split("\n")
                yield from lines
            elif not alive:
                break
            else:
                time.sleep(poll_seconds)
        if unfinished:
            yield unfinished
