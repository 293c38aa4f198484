"""JSON answers: exactly one object on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from t1cli.ui.printable import json_safe
from t1cli.ui.streams import go_quiet, leaves_when_unread


def print_object(value: Mapping[str, Any]) -> None:
    """Write one JSON object and a newline to stdout. NaN and infinity are written as null."""
    try:
        sys.stdout.write(object_text(value) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        if leaves_when_unread():
            raise
        go_quiet(sys.stdout)


def object_text(value: Mapping[str, Any]) -> str:
    """One object on one line, in characters that stdout has."""
    unicode = (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")
    return json_safe(json.dumps(_finite(value), ensure_ascii=not unicode, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and value not in (float("inf"), float("-inf")) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
