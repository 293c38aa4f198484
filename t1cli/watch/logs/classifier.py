"""A run's log, read as it grows: counts, first and last example, rates per finished rollout, and the first cause.

State is small whatever the log's size: one record per signature and one counter per signature and hour. It is saved
with the offset it belongs to, so a watcher that is killed and restarted neither loses nor repeats a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from t1cli.records import read_json, write_json
from t1cli.watch.logs.scanner import scan
from t1cli.watch.logs.signatures import Hit, minute_of, signatures

CHUNK_BYTES = 1 << 22
LONGEST_LINE_BYTES = 1 << 20
CAUSE_WINDOW_MINUTES = 15
SAME_TIME_MINUTES = 2


@dataclass
class Seen:
    """One signature in one log."""

    count: int = 0
    first_offset: int = -1
    first: str = ""
    first_minute: int | None = None
    last: str = ""
    last_offset: int = -1
    last_minute: int | None = None
    after_end: int = 0
    """How many of them came after training had finished."""
    by_hour: dict[str, int] = field(default_factory=dict)
    """Hour since the epoch (as text, for JSON) to count; only hits with a timestamp."""


@dataclass(frozen=True)
class Cause:
    """The first fatal line, and those that only followed from it."""

    signature: str
    line: str
    offset: int
    cascade: tuple[str, ...]


@dataclass(frozen=True)
class Rate:
    """A retry signature, rated: its count alone falls in the very hours in which a run breaks."""

    signature: str
    count: int
    per_finished_rollout: float | None
    worst_hour: float | None
    """Highest rate of an hour in which anything was logged."""
    alert: bool
    """Above one per finished rollout, over the whole log or in an hour."""


@dataclass
class LogState:
    """Everything that is known of a log so far."""

    offset: int = 0
    inode: int = 0
    seen: dict[str, Seen] = field(default_factory=dict)
    finished: bool = False
    """Whether training was seen to finish."""

    def take(self, hit: Hit) -> None:
        """Count one hit."""
        signature = signatures()[hit.signature]
        minute = minute_of(hit.text.encode())
        seen = self.seen.setdefault(signature.name, Seen())
        if seen.count == 0:
            seen.first, seen.first_offset, seen.first_minute = hit.text, hit.offset, minute
        seen.count += hit.count
        seen.last, seen.last_offset, seen.last_minute = hit.text, hit.offset, minute
        if minute is not None:
            hour = str(minute // 60)
            seen.by_hour[hour] = seen.by_hour.get(hour, 0) + hit.count
        if self.finished:
            seen.after_end += hit.count
        self.finished = self.finished or signature.name == "training_finished"

    def rates(self) -> tuple[Rate, ...]:
        """Retries per finished rollout; without finished rollouts in the log there is no rate."""
        finished = self.seen.get("rollout_finished")
        return tuple(
            _rate(signature.name, self.seen[signature.name], finished)
            for signature in signatures()
            if signature.kind == "noise" and signature.name in self.seen
        )

    def cause(self) -> Cause | None:
        """The first fatal line of the last 15 minutes; of several at one time the one that is trusted most."""
        fatal = [s for s in signatures() if s.name in self.seen and self._counts(s.name) and s.kind in _ENDS]
        if not fatal:
            return None
        when = {s.name: self.seen[s.name] for s in fatal}
        late = max((s.last_minute for s in when.values() if s.last_minute is not None), default=None)
        recent = [s for s in fatal if _within(when[s.name].last_minute, late, CAUSE_WINDOW_MINUTES)]
        first = min(recent, key=lambda s: when[s.name].first_offset)
        at = when[first.name].first_minute
        together = [s for s in recent if _within(at, when[s.name].first_minute, SAME_TIME_MINUTES)]
        roots = [s for s in together if s.kind != "cascade"] or together
        cause = min(roots, key=lambda s: (s.trust, when[s.name].first_offset))
        others = tuple(s.name for s in recent if s is not cause)
        return Cause(cause.name, when[cause.name].first, when[cause.name].first_offset, others)

    def _counts(self, name: str) -> bool:
        """Whether any of it is more than the usual noise after the end of training."""
        benign = next(s.benign_after_end for s in signatures() if s.name == name)
        return self.seen[name].count > (self.seen[name].after_end if benign else 0)

    def to_json(self) -> dict[str, Any]:
        """For the state file and for `--json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> LogState:
        """The inverse. Raises KeyError or TypeError for what it did not write."""
        seen = {name: Seen(**entry) for name, entry in found["seen"].items()}
        return cls(int(found["offset"]), int(found["inode"]), seen, bool(found["finished"]))


_ENDS = ("fatal", "cascade", "resource", "context")


class LogClassifier:
    """Reads one log incrementally, over rotation and truncation."""

    def __init__(self, path: Path, state_file: Path | None = None) -> None:
        self._path = path
        self._state_file = state_file
        self.state = _loaded(state_file)

    def poll(self, *, last: bool = False) -> tuple[Hit, ...]:
        """Hits of the lines that are complete; `last` takes an unfinished last line too. An absent log has none."""
        hits: list[Hit] = []
        for chunk, offset in self.chunks(last):
            for hit in scan(chunk, offset):
                self.state.take(hit)
                hits.append(hit)
            self.state.offset = offset + len(chunk)
        return tuple(hits)

    def consume(self, *, last: bool = False) -> int:
        """Like `poll`, but keeps no hits: memory stays flat whatever the log's size. Returns how many there were."""
        count = 0
        for chunk, offset in self.chunks(last):
            for hit in scan(chunk, offset):
                self.state.take(hit)
                count += 1
            self.state.offset = offset + len(chunk)
        return count

    def save(self) -> None:
        """Keep counts and offset together, whole or not at all."""
        if self._state_file is not None:
            write_json(self._state_file, json.loads(json.dumps(self.state.to_json())))

    def chunks(self, last: bool) -> Iterator[tuple[bytes, int]]:
        """Whole lines not read yet, in blocks, with the offset of each; the reader moves `state.offset` on."""
        rotated = self._rotated()
        if rotated is not None:
            yield from _whole_lines(rotated, self.state.offset, last=True)
            self.state.offset, self.state.inode = 0, 0
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        if status.st_size < self.state.offset:
            self.state.offset = 0
        self.state.inode = status.st_ino
        yield from _whole_lines(self._path, self.state.offset, last=last)

    def _rotated(self) -> Path | None:
        """Where the file that was being read is now, when another has taken its name."""
        try:
            if self.state.inode in (0, self._path.stat().st_ino):
                return None
        except FileNotFoundError:
            if self.state.inode == 0:
                return None
        for other in sorted(self._path.parent.glob(f"{self._path.name}*")):
            if other.stat().st_ino == self.state.inode:
                return other
        self.state.offset, self.state.inode = 0, 0
        return None


def _whole_lines(path: Path, offset: int, *, last: bool) -> Iterator[tuple[bytes, int]]:
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        rest = b""
        while block := file.read(CHUNK_BYTES):
            block = rest + block
            end = block.rfind(b"\n") + 1
            if not end and len(block) > LONGEST_LINE_BYTES:
                end = len(block)
            if end:
                yield block[:end], offset
                offset += end
            rest = block[end:]
        if last and rest:
            yield rest, offset


def _loaded(path: Path | None) -> LogState:
    found = read_json(path) if path is not None else None
    try:
        return LogState.from_json(found) if found else LogState()
    except (KeyError, TypeError, ValueError):
        return LogState()


def _rate(name: str, seen: Seen, finished: Seen | None) -> Rate:
    done = finished.count if finished else 0
    hours = [count / max(1, (finished.by_hour.get(hour, 0) if finished else 0)) for hour, count in seen.by_hour.items()]
    per_rollout = seen.count / done if done else None
    worst = max(hours) if hours and done else None
    return Rate(name, seen.count, per_rollout, worst, max(per_rollout or 0.0, worst or 0.0) > 1.0)


def _within(earlier: int | None, later: int | None, minutes: int) -> bool:
    """Whether two minutes are close; lines without a clock are."""
    return earlier is None or later is None or abs(later - earlier) <= minutes
