"""Where the record of a long check may lie: asked before the first task is run, not after."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.records import read_lines, read_regular

_LOOKED_AT = 100
"""Lines in which a record shows that it is one."""
_TORN_BYTES = 1 << 20


def require_place(record: Path) -> None:
    """Raises BadInput when no file can come to be at the path, or when a file lies there that is no record."""
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
    if record.is_file() and not _is_record(record):
        raise BadInput(
            f"{record} is no record: results would be added to a file that t1 did not write",
            where=str(record),
            hint="name a new file, or the record of an earlier check",
        )


def _is_record(file: Path) -> bool:
    """Whether a file is empty, has lines of a record, or is the torn beginning of its first one."""
    if any("digest" in line for line in islice(read_lines(file), _LOOKED_AT)):
        return True
    beginning = read_regular(file, _TORN_BYTES) or b""
    return not beginning.strip() or (beginning.startswith(b'{"') and b"\n" not in beginning)
