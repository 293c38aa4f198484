"""File operations in a tree that a hostile agent can write to: no link is ever followed.

Every path is walked one component at a time from a directory descriptor, so a link planted by the agent leads nowhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from t1cli.terminal.sandbox.plain_text import is_plain
from t1cli.terminal.sandbox.sandbox import SandboxError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 32
_ASIDE = ".replaced-"


@dataclass(frozen=True)
class Tree:
    """The root of a sandbox's files, and the user that its commands run as."""

    root: int
    """Directory descriptor; closed by whoever opened it."""
    user: int | None
    """User id that owns what commands may write; None when commands run as the caller."""

    def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file; None when absent or no regular file. Raises SandboxError above `max_bytes`."""
        parts = absolute_parts(path)
        try:
            with self._directory(parts[:-1]) as parent:
                # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
                file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise SandboxError(f"cannot read {path} in the sandbox: {error}") from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            return None
        with os.fdopen(file, "rb") as stream:
            content = stream.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise SandboxError(f"{path} in the sandbox is larger than {max_bytes} bytes")
        return content

    def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Copy the regular files under `source`; read-only targets are emptied first. Raises SandboxError."""
        try:
            if read_only:
                self.reset_directory(target)
            with self._directory(absolute_parts(target), create=True) as directory:
                _copy_into(source, directory, None if read_only else self.user, read_only=read_only)
        except OSError as error:
            raise SandboxError(f"cannot place {source} at {target} in the sandbox: {error}") from error

    def reset_directory(self, path: str) -> None:
        """Make `path` an empty directory that commands can write to, whatever was there. Raises SandboxError."""
        parts = absolute_parts(path)
        try:
            with self._directory(parts[:-1], create=True) as parent:
                # A directory of the root may be a mount of its own, and renaming it from the host would detach that.
                _reset(parts[-1], parent, self.user, in_place=len(parts) == 1)
        except OSError as error:
            raise SandboxError(f"cannot reset {path} in the sandbox: {error}") from error

    @contextlib.contextmanager
    def _directory(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        current = os.open(".", _DIRECTORY, dir_fd=self.root)
        try:
            for part in parts:
                following = _enter(part, current, create=create)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)


def absolute_parts(path: str) -> tuple[str, ...]:
    """The components of an absolute path inside. Raises SandboxError for any other, and for one that goes up."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if not path.startswith("/") or ".." in parts or not parts or not is_plain(path):
        raise SandboxError(f"{path!r} is not an absolute path inside the sandbox")
    return parts


def _enter(part: str, parent: int, *, create: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    except OSError as error:
        if not create or error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        # A link or a file where a directory belongs was planted: it makes way.
        _put_aside(part, parent)
    _make_directory(part, parent, None)
    return os.open(part, _DIRECTORY, dir_fd=parent)


def _reset(name: str, parent: int, user: int | None, *, in_place: bool) -> None:
    if in_place and _is_directory(name, parent):
        _empty(name, parent, user)
        return
    # Renaming is one step whatever an agent has piled up inside; the sandbox goes away soon anyway.
    with contextlib.suppress(FileNotFoundError):
        _put_aside(name, parent)
    _make_directory(name, parent, user)


def _is_directory(name: str, parent: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    return False


def _empty(name: str, parent: int, user: int | None) -> None:
    directory = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        os.fchmod(directory, 0o755)
        if user is not None:
            os.fchown(directory, user, user)
        for entry in os.listdir(directory):
            if not entry.startswith(_ASIDE):
                _put_aside(entry, directory)
    finally:
        os.close(directory)


def _put_aside(name: str, parent: int) -> None:
    os.rename(name, f"{_ASIDE}{secrets.token_hex(8)}", src_dir_fd=parent, dst_dir_fd=parent)


def _make_directory(name: str, parent: int, user: int | None) -> None:
    os.mkdir(name, 0o755, dir_fd=parent)
    if user is not None:
        os.chown(name, user, user, dir_fd=parent, follow_symlinks=False)


def _copy_into(source: Path, directory: int, user: int | None, *, read_only: bool, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise SandboxError(f"{source} is nested more than {_MAX_DEPTH} directories deep")
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            _make_or_keep(entry.name, directory, user)
            child = os.open(entry.name, _DIRECTORY, dir_fd=directory)
            try:
                _copy_into(Path(entry.path), child, user, read_only=read_only, depth=depth + 1)
            finally:
                os.close(child)
        elif entry.is_file(follow_symlinks=False):
            _copy_file(Path(entry.path), directory, user, read_only=read_only)
    if read_only:
        os.fchmod(directory, 0o555)
        if user is None and os.getuid() == 0:
            os.fchown(directory, 0, 0)


def _make_or_keep(name: str, parent: int, user: int | None) -> None:
    with contextlib.suppress(FileExistsError):
        _make_directory(name, parent, user)


def _copy_file(source: Path, directory: int, user: int | None, *, read_only: bool) -> None:
    # Modes are set, not copied: they must not depend on the umask of whoever checked the task out.
    mode = 0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644
    with contextlib.suppress(FileNotFoundError):
        os.unlink(source.name, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(source.name, flags, 0o600, dir_fd=directory)
    with os.fdopen(file, "wb") as stream:
        stream.write(source.read_bytes())
        stream.flush()
        os.fchmod(file, mode & 0o555 if read_only else mode)
        if user is not None:
            os.fchown(file, user, user)
