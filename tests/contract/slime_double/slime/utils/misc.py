"""Functions by dotted path, split at the last dot, loaded in the process that needs them."""

from __future__ import annotations

import importlib
from typing import Any


def load_function(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
