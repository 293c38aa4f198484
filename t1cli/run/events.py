"""events.jsonl: what happened in a run and when, written as it happens and read back typed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from t1cli.records import LineLog, number_in, read_lines
from t1cli.run.cpu_clock import tree_cpu_seconds
from t1cli.run.redaction import Redactor

Value = str | int | float | bool | None


class EventKind(StrEnum):
    """The closed list of what events.jsonl tells."""

    LAUNCHED = "launched"
    """A session of the attempt began: `session`, `pid`, `resumed` (bool)."""
    PHASE_BEGAN = "phase_began"
    """`phase`."""
    PHASE_ENDED = "phase_ended"
    """`phase`, `wall_seconds`, `cpu_seconds` (this process and all its descendants), `failed` (bool)."""
    ROLLOUT_ENDED = "rollout_ended"
    """`rollout`: a rollout was generated, trained on and its weights published."""
    CHECKPOINT = "checkpoint"
    """`rollout`, `role`, `path`, `bytes`: a checkpoint was renamed into place."""
    SWEPT = "swept"
    """`count`, `names`: what a dead session had left behind was destroyed."""
    STOP_REQUESTED = "stop_requested"
    """Somebody asked the campaign to stop after its next save."""
    JOB = "job"
    """`job_id`, `status` (Ray's, or `UNREACHABLE`), `detail`: the state of a Ray job has changed."""
    ALERT = "alert"
    """`rule`, `severity`, `message`: a watch rule fired."""
    NOTE = "note"
    """`message`: anything else worth keeping."""
    ENDED = "ended"
    """`outcome` (`finished`, `stopped`, `interrupted`, `failed`), `detail`: the session is over."""


@dataclass(frozen=True)
class Event:
    """One line of events.jsonl."""

    time: float
    """Unix seconds."""
    kind: EventKind
    fields: Mapping[str, Value] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A field as text; empty when absent."""
        value = self.fields.get(name)
        return "" if value is None else str(value)

    def number(self, name: str) -> float:
        """A field as a finite number; 0 when absent or no number."""
        return number_in(self.fields.get(name))


class EventWriter:
    """Appends events. Secrets of this process's environment never reach the file."""

    def __init__(self, path: Path, *, redactor: Redactor | None = None, clock: Callable[[], float] = time.time) -> None:
        self._log = LineLog(path)
        self._redactor = redactor or Redactor.of_environment()
        self._clock = clock

    def write(self, kind: EventKind, **fields: Value) -> None:
        """Add one event."""
        safe = {name: self._redactor.text(value) if isinstance(value, str) else value for name, value in fields.items()}
        self._log.append({"time": self._clock(), "event": str(kind), **safe})

    def write_if_possible(self, kind: EventKind, **fields: Value) -> None:
        """Add one event behind a failure: a disk that takes nothing any more must not hide what the failure was."""
        try:
            self.write(kind, **fields)
        except OSError as problem:
            print(f"events.jsonl takes no more: {problem}", file=sys.stderr)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A named stretch of work: wall seconds and CPU seconds of this process and all descendants are recorded."""
        self.write(EventKind.PHASE_BEGAN, phase=name)
        wall, cpu, failed = time.monotonic(), tree_cpu_seconds(), True
        try:
            yield
            failed = False
        finally:
            write = self.write_if_possible if failed else self.write
            write(
                EventKind.PHASE_ENDED,
                phase=name,
                wall_seconds=round(time.monotonic() - wall, 3),
                cpu_seconds=round(max(0.0, tree_cpu_seconds() - cpu), 3),
                failed=failed,
            )

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._log.close()


def read_events(path: Path) -> tuple[Event, ...]:
    """Every whole event in the order written; kinds this version does not know are passed over."""
    return tuple(event for line in read_lines(path) if (event := _event(line)) is not None)


class EventTail:
    """Reads a growing events.jsonl on from where the last call ended; a torn last line waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def poll(self) -> tuple[Event, ...]:
        """Events that were completed since the last call. Raises OSError where the file cannot be read."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._read)
                new = stream.read()
        except FileNotFoundError:
            return ()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        return tuple(event for line in whole.splitlines() if (event := _event(_fields(line))) is not None)


def _fields(line: bytes) -> Mapping[str, Value]:
    """One line's object; empty for what is torn or foreign."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _event(line: Mapping[str, Value]) -> Event | None:
    try:
        kind = EventKind(str(line.get("event")))
    except ValueError:
        return None
    fields = {name: value for name, value in line.items() if name not in ("time", "event")}
    return Event(number_in(line.get("time")), kind, fields)
