"""The write-ahead record of leases: on disk before anything exists, so that a restart knows what it may find."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class JournalLease:
    """A lease as the record knows it."""

    lease_id: str
    task: str
    group: str
    owner: str
    request_id: str


class LeaseJournal:
    """`journal.jsonl` of one pool server: append-only, one event a line, compacted by the server itself."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "journal.jsonl"

    def granted(self, lease: JournalLease) -> None:
        """Before anybody hears of a lease."""
        self._append({"event": "granted", **lease.__dict__})

    def creating(self, lease_id: str, name: str) -> None:
        """Before the call that creates a sandbox."""
        self._append({"event": "creating", "lease_id": lease_id, "name": name})

    def closed(self, lease_id: str, reason: str) -> None:
        """After nothing of the lease is left."""
        self._append({"event": "closed", "lease_id": lease_id, "reason": reason})

    def open_leases(self) -> tuple[JournalLease, ...]:
        """Leases granted and not closed; a line that a crash cut off is passed over."""
        found: dict[str, JournalLease] = {}
        for event in self._events():
            lease_id = str(event.get("lease_id"))
            if event.get("event") == "granted":
                fields = ("task", "group", "owner", "request_id")
                found[lease_id] = JournalLease(lease_id, *(str(event.get(name, "")) for name in fields))
            elif event.get("event") == "closed":
                found.pop(lease_id, None)
        return tuple(found.values())

    def compact(self) -> None:
        """Drop what is closed. Only the one server of this directory may call it."""
        left = [json.dumps({"event": "granted", **lease.__dict__}) + "\n" for lease in self.open_leases()]
        aside = self.path.with_name(f".{self.path.name}.tmp")
        aside.write_text("".join(left), encoding="utf-8")
        aside.replace(self.path)

    def _append(self, event: dict[str, object]) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, (json.dumps(event) + "\n").encode())
        finally:
            os.close(descriptor)

    def _events(self) -> Iterator[dict[str, object]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event
