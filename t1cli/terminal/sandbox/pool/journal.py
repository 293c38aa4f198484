"""The write-ahead record of leases: on disk before anything exists, so that a restart knows what it may find."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from t1cli.errors import Refused
from t1cli.records import append_line, read_lines, read_regular, write_text

_EVENTS: Final = ("granted", "creating", "closed")
_LOOKED_AT_BYTES: Final = 1 << 16


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
        append_line(self.path, {"event": "granted", **lease.__dict__})

    def creating(self, lease_id: str, name: str) -> None:
        """Before the call that creates a sandbox."""
        append_line(self.path, {"event": "creating", "lease_id": lease_id, "name": name})

    def closed(self, lease_id: str, reason: str) -> None:
        """After nothing of the lease is left."""
        append_line(self.path, {"event": "closed", "lease_id": lease_id, "reason": reason})

    def open_leases(self) -> tuple[JournalLease, ...]:
        """Leases granted and not closed; a line that a crash cut off is passed over."""
        found: dict[str, JournalLease] = {}
        for event in read_lines(self.path):
            lease_id = str(event.get("lease_id"))
            if event.get("event") == "granted":
                fields = ("task", "group", "owner", "request_id")
                found[lease_id] = JournalLease(lease_id, *(str(event.get(name, "")) for name in fields))
            elif event.get("event") == "closed":
                found.pop(lease_id, None)
        return tuple(found.values())

    def refuse_foreign(self) -> None:
        """Raises Refused for a file with content and no event of ours: compacting it would throw it away."""
        content = read_regular(self.path, at_most=_LOOKED_AT_BYTES) or b""
        if content.strip() and not any(event.get("event") in _EVENTS for event in read_lines(self.path)):
            raise Refused(
                "no journal of a pool server: none of its lines is an event of one",
                where=str(self.path),
                hint="another --directory, or move the file away: sandboxes are swept by a record of their own",
            )

    def compact(self) -> None:
        """Drop what is closed. Only the one server of this directory may call it."""
        left = [json.dumps({"event": "granted", **lease.__dict__}) + "\n" for lease in self.open_leases()]
        write_text(self.path, "".join(left))
