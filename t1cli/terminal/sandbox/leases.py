"""The record of local sandboxes: who asked for which, written down before anything is created."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from t1cli.records import append_line, read_lines, write_text
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, this_process
from t1cli.terminal.sandbox.sandbox import SandboxError

NODE_PREFIX = "node-"
"""Of a run's directories of sandboxes, where several nodes share the disk and each has a record of its own."""

_PID = re.compile(r"[0-9]{1,10}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Lease:
    """One sandbox as the record knows it."""

    name: str
    owner: str
    marker: str = ""
    """Unguessable text in the environment of every process of a plain-process sandbox; empty for bubblewrap."""
    processes: tuple[ProcessIdentity, ...] = ()
    closed: bool = False

    @property
    def owner_alive(self) -> bool:
        process = owner_process(self.owner)
        return process is not None and process.alive


def full_owner(owner: str) -> str:
    """`run/pid/start` of the calling process for a bare run id; a full owner is returned as it is."""
    if owner_process(owner) is not None:
        return owner
    process = this_process()
    return f"{owner}/{process.pid}/{process.start}"


def owner_process(owner: str) -> ProcessIdentity | None:
    """The process part of a full owner; None for a bare run id."""
    parts = owner.rsplit("/", 2)
    if len(parts) != 3 or not _PID.fullmatch(parts[1]) or "@" not in parts[2]:
        return None
    return ProcessIdentity(int(parts[1]), parts[2])


def owner_matches(owner: str, wanted: str) -> bool:
    """Whether a full owner is the wanted one, or belongs to the wanted run id."""
    return owner == wanted or owner.rsplit("/", 2)[0] == wanted


class LeaseBook:
    """`leases.jsonl` of one directory: append-only, one event a line, shared by all processes of a run."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "leases.jsonl"

    def ask(self, lease: Lease) -> None:
        """Record a sandbox before it is created. Raises SandboxError for a name that could be a path."""
        if not _NAME.fullmatch(lease.name):
            raise SandboxError(f"sandbox name {lease.name!r} is not plain letters, digits, dots, dashes, underscores")
        for event in _events_of(lease):
            append_line(self.path, event)

    def started(self, name: str, processes: tuple[ProcessIdentity, ...]) -> None:
        """Record the processes that hold a sandbox."""
        append_line(self.path, {"event": "started", "name": name, "processes": _told(processes)})

    def closed(self, name: str, *, swept: bool = False) -> None:
        """Record that nothing of a sandbox is left."""
        append_line(self.path, {"event": "closed", "name": name, "swept": swept})

    def compact(self) -> None:
        """Drop what is closed from the record. Only for a directory with one process, as a pool server's is."""
        left = [lease for lease in self.leases() if not lease.closed]
        if not self.path.exists():
            return
        write_text(self.path, "".join(json.dumps(event) + "\n" for lease in left for event in _events_of(lease)))

    def leases(self) -> tuple[Lease, ...]:
        """Every sandbox on record, newest state; a line that was cut off, or that we never wrote, is passed over."""
        found: dict[str, Lease] = {}
        for event in read_lines(self.path):
            name = str(event.get("name"))
            if not _NAME.fullmatch(name):
                # A sweep removes the directory of this name: it must not lead anywhere else.
                continue
            if event.get("event") == "asked":
                found[name] = Lease(name, str(event.get("owner")), str(event.get("marker", "")))
            elif event.get("event") == "started" and name in found:
                found[name] = replace(found[name], processes=_processes(event.get("processes")))
            elif event.get("event") == "closed" and name in found:
                found[name] = replace(found[name], closed=True)
        return tuple(found.values())


def _events_of(lease: Lease) -> Iterator[dict[str, object]]:
    """As they were written when the sandbox was asked for and started."""
    yield {"event": "asked", "name": lease.name, "owner": lease.owner, "marker": lease.marker}
    if lease.processes:
        yield {"event": "started", "name": lease.name, "processes": _told(lease.processes)}


def _told(processes: tuple[ProcessIdentity, ...]) -> list[dict[str, object]]:
    return [{"pid": process.pid, "start": process.start} for process in processes]


def _processes(found: object) -> tuple[ProcessIdentity, ...]:
    if not isinstance(found, list):
        return ()
    return tuple(
        ProcessIdentity(item["pid"], item["start"])
        for item in found
        if isinstance(item, dict) and type(item.get("pid")) is int and isinstance(item.get("start"), str)
    )
