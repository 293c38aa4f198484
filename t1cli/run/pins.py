"""Pinned checkpoints: a file `iter_N.pinned` beside one keeps it from retention, whoever made it, whatever it holds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from t1cli.records import read_json, write_json

SUFFIX: Final = ".pinned"
_PREFIX: Final = "iter_"


def pin(checkpoint: Path, *, by: str, reason: str) -> None:
    """Keep `…/iter_N` whatever retention says. A pin that is there already stays as it is."""
    if not _file(checkpoint).exists():
        write_json(_file(checkpoint), {"by": by, "reason": reason, "time": time.time()})


def unpin(checkpoint: Path, *, by: str) -> None:
    """Give it back to retention, if this one pinned it."""
    if (read_json(_file(checkpoint)) or {}).get("by") == by:
        _file(checkpoint).unlink(missing_ok=True)


def pinned(role_directories: Iterable[Path]) -> frozenset[int]:
    """Iterations of which any role's checkpoint is pinned. `touch iter_0000010.pinned` is a pin."""
    names = (
        entry.name.removeprefix(_PREFIX).removesuffix(SUFFIX)
        for directory in role_directories
        for entry in directory.glob(f"{_PREFIX}*{SUFFIX}")
    )
    return frozenset(int(name) for name in names if name.isdecimal())


def _file(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}{SUFFIX}")
