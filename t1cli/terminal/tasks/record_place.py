"""Where the record of a long check may lie: asked before the first task is run, not after."""

from __future__ import annotations

from pathlib import Path

from t1cli.errors import BadInput


def require_place(record: Path) -> None:
    """Raises BadInput when no file can come to be at the path."""
    if not record.parent.is_dir():
        raise BadInput(f"{record.parent} is no directory", where=str(record), hint="make it, or name another record")
    if record.is_dir():
        raise BadInput(f"{record} is a directory", where=str(record), hint="name a file")
    if record.exists() and not record.is_file():
        # Reading a pipe would wait for ever, and a device gives nothing back.
        raise BadInput(
            f"{record} is a pipe or a device: a record is read again, to go on from it",
            where=str(record),
            hint="name a file; --json writes the whole answer to stdout",
        )
