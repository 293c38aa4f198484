"""Reading one JSON object of a known format from a file that somebody wrote."""

from __future__ import annotations

import json
from errno import ENOENT
from pathlib import Path
from typing import Any

MAX_BYTES = 16 * 2**20
"""A thousand times the largest of our own."""


def read_object(path: Path, format_version: int) -> dict[str, Any]:
    """The object of a file. ValueError says what else it is; FileNotFoundError where no regular file is."""
    if not path.is_file():  # a pipe would be waited for, a device never ends
        raise FileNotFoundError(ENOENT, "no such file", str(path))
    with path.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path}: more than {MAX_BYTES:,} bytes")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no JSON ({error})") from error
    if not isinstance(body, dict):
        raise ValueError(f"{path}: not a JSON object")
    if body.get("format_version") != format_version:
        raise ValueError(f"{path}: format_version is {body.get('format_version')!r}, expected {format_version}")
    return body
