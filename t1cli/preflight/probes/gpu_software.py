"""The driver and the installed torch of a node, side by side."""

from __future__ import annotations

from typing import Any

from t1cli.preflight.probes.gpus import gpus
from t1cli.preflight.probes.packages import torch_cuda


def gpu_software() -> dict[str, Any]:
    """What `gpus` says, and the CUDA version that torch was built for."""
    return {"gpus": gpus(), "torch": torch_cuda()}
