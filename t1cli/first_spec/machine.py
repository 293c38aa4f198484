"""The size of this machine: what a campaign on it may count on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from memory_model.units import GIB

_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")


def gpus_here() -> int:
    """GPUs whose driver is loaded on this machine."""
    return len(list(_NVIDIA.glob("*")))


def kind_here(kinds: list[str]) -> str | None:
    """The hardware preset whose name the driver uses for the first GPU."""
    for path in sorted(_NVIDIA.glob("*/information")):
        text = path.read_text(encoding="utf-8", errors="replace").lower()
        return next((kind for kind in kinds if kind in text), None)
    return None


def hardware_here(directory: Path) -> Mapping[str, Any]:
    """This machine as a `hardware` block, rounded down; disk is what is free where `directory` is."""
    return {
        "host_ram_gib": max(1, psutil.virtual_memory().total // GIB),
        "cpu_cores": os.cpu_count() or 1,
        "disk_gib": max(1, shutil.disk_usage(directory).free // GIB),
        "source": "this machine, as t1 init found it",
    }
