"""Checkpoint space: weights only or with optimizer state, per role, times what retention keeps."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model.architecture import Architecture
from memory_model.parameters import mtp_parameters, text_parameters
from memory_model.units import GIB

WEIGHTS_BYTES = 2
FULL_BYTES = 2 + 4 + 4 + 4
"""bf16 weights, fp32 main parameters and both moments (Megatron torch_dist)."""


@dataclass(frozen=True)
class DiskNeed:
    """GiB of checkpoints."""

    per_save_gib: float
    total_gib: float
    saves_kept: int


def disk_need(
    arch: Architecture, *, roles: int, saves_kept: int, full: bool = False, with_mtp: bool = False
) -> DiskNeed:
    """Space of one save of all roles and of everything retention keeps; one more is on disk while it is written."""
    params = text_parameters(arch).total + (mtp_parameters(arch).total if with_mtp else 0)
    per_save = roles * params * (FULL_BYTES if full else WEIGHTS_BYTES) / GIB
    return DiskNeed(per_save, per_save * (saves_kept + 1), saves_kept)
