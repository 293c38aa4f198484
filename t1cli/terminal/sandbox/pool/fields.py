"""Fields of a request's JSON, each with a sentence about what was expected."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from t1cli.terminal.sandbox.pool.refusal import bad_request


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text; required without a default."""
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise bad_request(f"{name} must be a text, found {type(value).__name__}")
    return value


def seconds(body: Mapping[str, Any], name: str, default: float | None) -> float | None:
    """A number of seconds above 0."""
    value = body.get(name, default)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e7:
        raise bad_request(f"{name} must be seconds above 0, found {value!r}")
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
    return found


def write_files(body: Mapping[str, Any], directory: Path) -> None:
    """Write the request's `files` (path, mode, content in base64) below `directory`."""
    files = body.get("files")
    if not isinstance(files, list):
        raise bad_request("files must be a list")
    for found in files:
        if not isinstance(found, dict):
            raise bad_request("a file must be an object with path and content")
        path = PurePosixPath(text(found, "path"))
        if path.is_absolute() or ".." in path.parts:
            raise bad_request(f"{path} is no path inside the directory")
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if found.get("directory"):
            target.mkdir(exist_ok=True)
            continue
        try:
            target.write_bytes(base64.b64decode(text(found, "content", ""), validate=True))
        except binascii.Error as error:
            raise bad_request(f"the content of {path} is no base64") from error
        target.chmod(0o755 if found.get("executable") else 0o644)
