"""JSON answers: exactly one object on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def print_object(value: Mapping[str, Any]) -> None:
    """Write one JSON object and a newline to stdout. NaN and infinity are written as null."""
    sys.stdout.write(json.dumps(_finite(value), ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and value not in (float("inf"), float("-inf")) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
