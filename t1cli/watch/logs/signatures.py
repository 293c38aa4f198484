"""Signatures, and how one line is read: prefixes off, transcripts never, Ray's collapsed repeats counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

Kind = Literal["fatal", "cascade", "resource", "noise", "context", "info"]

_PREFIX = re.compile(
    rb"(?:\x1b\[[0-9;]*[A-Za-z]"  # colour
    # Ray's process
    rb"|\((?:raylet|autoscaler[^)]*|gcs_server|[A-Za-z_][\w.:]*(?: pid=\d+)?(?:, ip=[^)]*)?)\)(?=[ \x1b\[])"
    rb"|\[rank\d+\]:?"
    rb"|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:[+-]\d\d:?\d\d|Z)?(?: [A-Z] \d+ \d+)?\]?"  # timestamp
    rb"|\[[EWIF] ?\d{3,4}[^\]]*\]"  # glog and c10d
    rb"|\[ *\d+\.\d+\]"  # the kernel's clock
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w.-]+(?:\[\d+\])?:"  # syslog
    rb"|(?:ERROR|WARNING|INFO|DEBUG|CRITICAL|FATAL)\b:?(?: \d\d-\d\d \d\d:\d\d:\d\d)?"
    rb"|\[?(?!\S*gloo)[\w./-]+\.(?:py|cc|cpp|go):\d+\]?(?: -|:)?"  # file and line; gloo's is part of its message
    rb"|-(?= )"
    rb")[ \t]*"
)
_REPEATED = re.compile(rb"\[repeated (\d+)x across cluster\]")
_TIME = re.compile(rb"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)")


@dataclass(frozen=True)
class Signature:
    """One line of the table."""

    name: str
    kind: Kind
    literals: tuple[bytes, ...]
    """A matching line has one of these: what a scanner looks for."""
    pattern: re.Pattern[bytes]
    """Matched at the start of the stripped line."""
    example: str
    source: str
    trust: int
    benign_after_end: bool
    first_seconds_are_noise: int
    catalogue: tuple[str, ...] = ()
    """Rows of the failure catalogue."""


@dataclass(frozen=True)
class Hit:
    """One line that has a signature."""

    offset: int
    signature: int
    """Index into the table."""
    count: int
    """1, or 1 + N where Ray has collapsed N repeats."""
    text: str


@cache
def signatures() -> tuple[Signature, ...]:
    """The shipped table."""
    found = yaml.safe_load((Path(__file__).parent / "signatures.yaml").read_text(encoding="utf-8"))
    return tuple(
        Signature(
            entry["name"],
            entry["kind"],
            tuple(literal.encode() for literal in entry["any"]),
            re.compile(entry["pattern"].encode()),
            entry["example"],
            entry["source"],
            entry.get("trust", 9),
            entry.get("benign_after_end", False),
            entry.get("first_seconds_are_noise", 0),
            tuple(entry.get("catalogue", ())),
        )
        for entry in found
    )


def stripped(line: bytes) -> bytes:
    """A line without the prefixes that loggers, Ray, torch and the kernel put before it."""
    at = 0
    while (found := _PREFIX.match(line, at)) is not None and found.end() > at:
        at = found.end()
    return line[at:]


def repeats(line: bytes) -> int:
    """How often the line was logged: Ray collapses equal lines of a cluster into one with a count."""
    found = _REPEATED.search(line) if b"[repeated " in line else None
    return 1 + int(found[1]) if found else 1


def minute_of(line: bytes) -> int | None:
    """Minutes since the epoch of the first timestamp in a line, as if it were UTC; None without one."""
    found = _TIME.search(line, 0, 200)
    if found is None:
        return None
    year, month, day, hour, minute, _ = map(int, found.groups())
    return _days(year, month, day) * 1440 + hour * 60 + minute


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, month = year // 400, (month + 9) % 12
    of_era = year - era * 400
    of_year = (153 * month + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def match_line(line: bytes, candidates: range | set[int] | tuple[int, ...], table: tuple[Signature, ...]) -> list[int]:
    """Indices of the signatures that a line has, in table order."""
    text = stripped(line)
    return [index for index in sorted(candidates) if table[index].pattern.match(text)]
