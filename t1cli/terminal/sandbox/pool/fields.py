"""Fields of a request's JSON, each with a sentence about what was expected."""

from __future__ import annotations

import base64
import errno
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from t1cli.terminal.sandbox.plain_text import is_plain
from t1cli.terminal.sandbox.pool.refusal import bad_request

_SHOWN: Final = 200
"""Characters of what was sent that an answer repeats."""
_NO_SUCH_PATH: Final = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text; required without a default."""
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise bad_request(f"{name} must be a text, found {type(value).__name__}")
    return value


def plain_text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text that the kernel takes as a path or an argument."""
    value = text(body, name, default)
    if not is_plain(value):
        raise bad_request(f"{name} holds a NUL or half a character: {value[:_SHOWN]!r}")
    return value


def seconds(body: Mapping[str, Any], name: str, default: float | None) -> float | None:
    """A number of seconds above 0."""
    value = body.get(name, default)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e7:
        raise bad_request(f"{name} must be seconds above 0, found {str(value)[:_SHOWN]!r}")
    return float(value)


def mapping(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object; {} when absent."""
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise bad_request(f"{name} must be an object, found {type(value).__name__}")
    return value


def environment(body: Mapping[str, Any]) -> dict[str, str] | None:
    """Environment variables of a command."""
    found = mapping(body, "env") if body.get("env") is not None else None
    if found is not None and not all(isinstance(value, str) for value in found.values()):
        raise bad_request("env must map names to texts")
    for name, value in (found or {}).items():
        if not name or "=" in name or not is_plain(name + value):
            raise bad_request(f"env holds what no variable can be: {name[:_SHOWN]!r}")
    return found


def write_files(body: Mapping[str, Any], directory: Path) -> None:
    """Write the request's `files` (path, mode, content in base64) below `directory`."""
    files = body.get("files")
    if not isinstance(files, list):
        raise bad_request("files must be a list")
    for found in files:
        if not isinstance(found, dict):
            raise bad_request("a file must be an object with path and content")
        path = PurePosixPath(plain_text(found, "path"))
        if path.is_absolute() or ".." in path.parts:
            raise bad_request(f"{str(path)[:_SHOWN]} is no path inside the directory")
        try:
            content = base64.b64decode(text(found, "content", ""), validate=True)
        except ValueError as error:
            raise bad_request(f"the content of {str(path)[:_SHOWN]} is no base64") from error
        try:
            _write(directory / path, found, content)
        except OSError as error:
            if error.errno not in _NO_SUCH_PATH:
                raise
            raise bad_request(f"no file can be at {str(path)[:_SHOWN]}: {error.strerror}") from error


def _write(target: Path, found: Mapping[str, Any], content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if found.get("directory"):
        target.mkdir(exist_ok=True)
        return
    target.write_bytes(content)
    target.chmod(0o755 if found.get("executable") else 0o644)
