"""The part of the environment that a run record keeps: an allow-list of names, and no secret among them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from t1cli.run.redaction import Redactor
from t1cli.secret_names import names_a_secret

_PREFIXES: Final = (
    "T1_",
    "CUDA_",
    "CUBLAS_",
    "GLOO_",
    "HF_",
    "KMP_",
    "LC_",
    "MALLOC_",
    "MASTER_",
    "MEGATRON_",
    "MKL_",
    "NCCL_",
    "NVIDIA_",
    "NVTE_",
    "OMP_",
    "PYTHON",
    "PYTORCH_",
    "RAY_",
    "SGLANG_",
    "SLIME_",
    "SLURM_",
    "TORCH",
    "TP_",
    "UB_",
    "WANDB_",
)
_NAMES: Final = frozenset(
    {"CONDA_PREFIX", "HOSTNAME", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "TZ", "VIRTUAL_ENV"}
)


def recorded_environment(redactor: Redactor, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables worth comparing between two runs, by name; secret-named ones are left out altogether."""
    source = os.environ if environment is None else environment
    return {
        name: redactor.text(value)
        for name, value in sorted(source.items())
        if (name.startswith(_PREFIXES) or name in _NAMES) and not names_a_secret(name)
    }
