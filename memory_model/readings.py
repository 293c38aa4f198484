"""Memory readings in logs: Megatron's memory lines, torch's OOM messages, nvidia-smi, slime, JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal

Instrument = Literal["allocated", "reserved", "in_use", "device", "non_pytorch", "other_process"]
"""`in_use`: one process as the driver counts it; `device`: the whole GPU."""

MIB_PER_GIB = 1024.0
_UNIT = {"MiB": 1 / MIB_PER_GIB, "GiB": 1.0, "KiB": 1 / MIB_PER_GIB**2}


@dataclass(frozen=True)
class Reading:
    """One number an instrument showed."""

    instrument: Instrument
    gib: float
    source: str
    """`file:line`."""
    rank: int | None = None


def read_logs(paths: Iterable[Path]) -> tuple[Reading, ...]:
    """Readings of log files, and of every `*.log` and `metrics.jsonl` under directories; unknown lines are skipped."""
    return tuple(reading for path in paths for file in _files(path) for reading in _read(file))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in (".log", ".jsonl", ".txt") and file.is_file())
    return [path]


def _read(path: Path) -> Iterator[Reading]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            for parse in _PARSERS:
                yield from parse(line, f"{path}:{number}")


# `[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 3.0 | max reserved: 4.0`
_MEGATRON = re.compile(r"\[Rank (\d+)\].*memory \(MB\).*?max allocated: ([\d.]+).*?max reserved: ([\d.]+)")


def _megatron(line: str, source: str) -> Iterator[Reading]:
    if found := _MEGATRON.search(line):
        rank = int(found[1])
        yield Reading("allocated", float(found[2]) / MIB_PER_GIB, source, rank)
        yield Reading("reserved", float(found[3]) / MIB_PER_GIB, source, rank)


_IN_USE = re.compile(r"this process has ([\d.]+) (KiB|MiB|GiB) memory in use")
_OTHER = re.compile(r"Process \d+ has ([\d.]+) (KiB|MiB|GiB) memory in use")
_ALLOCATED = re.compile(r"([\d.]+) (KiB|MiB|GiB) is allocated by PyTorch")
_UNALLOCATED = re.compile(r"([\d.]+) (KiB|MiB|GiB) is reserved by PyTorch but unallocated")
_ASKED = re.compile(r"Tried to allocate ([\d.]+) (KiB|MiB|GiB)")


def _torch_oom(line: str, source: str) -> Iterator[Reading]:
    if "out of memory" not in line or "Tried to allocate" not in line:
        return
    found = {name: _size(pattern, line) for name, pattern in _OOM.items()}
    asked = found["asked"] or 0.0
    if found["in_use"] is not None:
        yield Reading("in_use", found["in_use"] + asked, source)
    if found["allocated"] is not None:
        yield Reading("allocated", found["allocated"] + asked, source)
    if found["in_use"] is not None and found["allocated"] is not None:
        outside = found["in_use"] - found["allocated"] - (found["unallocated"] or 0.0)
        yield Reading("non_pytorch", outside, source)
    if found["other"] is not None:
        yield Reading("other_process", found["other"], source)


_OOM = {"in_use": _IN_USE, "other": _OTHER, "allocated": _ALLOCATED, "unallocated": _UNALLOCATED, "asked": _ASKED}


def _size(pattern: re.Pattern[str], line: str) -> float | None:
    found = pattern.search(line)
    return float(found[1]) * _UNIT[found[2]] if found else None


_SMI = re.compile(r"(\d+)MiB\s*/\s*(\d+)MiB")


def _nvidia_smi(line: str, source: str) -> Iterator[Reading]:
    if found := _SMI.search(line):
        yield Reading("device", int(found[1]) / MIB_PER_GIB, source)


# slime: `Memory-Usage after train: {'gpu': '0', 'total_GB': 139.8, 'free_GB': 20.1, 'used_GB': 119.7, …}` (1024^3).
_SLIME = re.compile(r"'used_GB': ([\d.]+), 'allocated_GB': ([\d.]+), 'reserved_GB': ([\d.]+)")


def _slime(line: str, source: str) -> Iterator[Reading]:
    if found := _SLIME.search(line):
        yield Reading("device", float(found[1]), source)
        yield Reading("allocated", float(found[2]), source)
        yield Reading("reserved", float(found[3]), source)


_KEYS: dict[str, Instrument] = {
    "max_allocated_gib": "allocated",
    "max_reserved_gib": "reserved",
    "device_used_gib": "device",
}


def _json_line(line: str, source: str) -> Iterator[Reading]:
    if not line.startswith("{") or "_gib" not in line:
        return
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return
    for key, value in body.items():
        instrument = _KEYS.get(key.rsplit("/", 1)[-1])
        if instrument is not None and isinstance(value, int | float) and 0 < value < inf:
            yield Reading(instrument, float(value), source)


_PARSERS: tuple[Callable[[str, str], Iterator[Reading]], ...] = (_megatron, _torch_oom, _nvidia_smi, _slime, _json_line)
