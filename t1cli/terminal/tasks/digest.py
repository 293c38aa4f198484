"""What a task is, as one number: another digest is another task, to be checked and judged again."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from t1cli.terminal.tasks.load import PARTS, entries, few_entries

_PIECE: Final = 1024 * 1024


def digest_of(directory: Path) -> str:
    """Of the names, kinds and bytes of a task's files; links by where they lead, files read a piece at a time.

    Raises BadInput for a part beyond a task's limits, before anything is read, and OSError for what cannot be read.
    """
    for part in (directory / name for name in PARTS):
        if part.is_dir() and not part.is_symlink():
            for _ in few_entries(part):
                pass
    digest = hashlib.sha256()
    for path, mode, size_bytes in sorted(entries(directory)):
        linked = stat.S_ISLNK(mode)
        target = os.readlink(path).encode() if linked else b""
        digest.update(f"{path.relative_to(directory)}\0{linked}\0{len(target) or size_bytes}\0".encode() + target)
        if stat.S_ISREG(mode):
            _feed(digest, path)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, path: Path) -> None:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
