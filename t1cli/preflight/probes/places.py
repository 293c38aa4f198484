"""Places on disk: room, inodes, what kind of file system, and whether it can really be written to and locked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREFIX = ".t1-preflight-"
"""Files that a probe makes where a nameless one is impossible; what a killed one left is removed by a later one."""
OLD_SECONDS = 3600.0
"""Age of a file that nobody is about to unlink any more; a probe's own has its name for a moment."""
_NO_SUCH_THING = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
"""What file systems, and kernels, without O_TMPFILE answer."""


def places(paths: Mapping[str, str]) -> dict[str, Any]:
    """By the caller's name: where the nearest existing directory is, bytes and inodes free, kind, writable, locks."""
    mounts = _mounts()
    return {name: _place(Path(path), mounts) for name, path in paths.items()}


def _place(path: Path, mounts: list[tuple[Path, str, str]]) -> dict[str, Any]:
    directory = nearest_existing(path)
    stat = os.statvfs(directory)
    mount, kind, options = _mount_of(directory, mounts)
    problem, locks = _write_and_lock(directory)
    return {
        "directory": str(directory),
        "exists": path.exists(),
        "free": stat.f_bavail * stat.f_frsize,
        "size": stat.f_blocks * stat.f_frsize,
        "inodes_free": stat.f_favail if stat.f_files else None,
        "kind": kind,
        "mount": mount,
        "read_only": "ro" in options.split(","),
        "problem": problem,
        "locks": locks,
    }


def nearest_existing(path: Path) -> Path:
    """The directory itself, or the innermost one above it that exists."""
    for candidate in (path, *path.absolute().parents):
        with contextlib.suppress(OSError):
            if candidate.is_dir():
                return candidate
    return Path("/")


def _write_and_lock(directory: Path) -> tuple[str, bool | None]:
    """Why nothing can be written (empty when it can), and whether a lock is granted; nothing stays behind."""
    try:
        descriptor = _nameless(directory)
    except OSError as error:
        return f"{error.strerror or error}", None
    try:
        os.write(descriptor, b"t1" * 2048)
        os.fsync(descriptor)
    except OSError as error:
        os.close(descriptor)
        return f"{error.strerror or error}", None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "", True
    except OSError:
        return "", False
    finally:
        os.close(descriptor)


def _nameless(directory: Path) -> int:
    """A file without a name: the kernel drops it with its descriptor, however this process ends."""
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NO_SUCH_THING:
            raise
    return _unnamed(directory)


def _unnamed(directory: Path) -> int:
    """A file that loses its name at once. Every node of a cluster may do this in one shared directory at a time."""
    path = directory / f"{PREFIX}{secrets.token_hex(8)}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        path.unlink(missing_ok=True)
        remove_old(directory, now=os.fstat(descriptor).st_mtime)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_old(directory: Path, *, now: float) -> None:
    """Remove what killed probes of any node left. `now` is the file system's own time: its server's clock counts."""
    for left in directory.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < now - OLD_SECONDS:
                left.unlink()


def _mounts() -> list[tuple[Path, str, str]]:
    try:
        rows = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    fields = [row.split() for row in rows]
    return [(Path(_unescaped(row[1])), row[2], row[3]) for row in fields if len(row) >= 4]


def _mount_of(directory: Path, mounts: list[tuple[Path, str, str]]) -> tuple[str, str, str]:
    place = directory.resolve()
    holding = [
        (len(mount.parts), str(mount), kind, options) for mount, kind, options in mounts if place.is_relative_to(mount)
    ]
    # Of two mounts on one directory the later one is seen.
    best = max(holding, key=lambda one: one[0], default=(0, "/", "unknown", ""))
    last = [one for one in holding if one[0] == best[0]] or [best]
    return last[-1][1:]


def _unescaped(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
