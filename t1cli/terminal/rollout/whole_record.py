"""A small record on disk that is there as a whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object aside, flush it to the disk and rename it into place, over an earlier one."""
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("w", encoding="utf-8") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
