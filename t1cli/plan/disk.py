"""Checkpoint space: bytes per parameter of what is saved, roles, and how many saves retention keeps."""

from __future__ import annotations

from memory_model.units import GIB
from t1cli.plan.memory_inputs import roles_of
from t1cli.plan.plan import DiskPlan
from t1cli.spec.experiment import ExperimentSpec

# Bytes per parameter on disk. bf16 weights; a full torch_dist checkpoint adds the fp32 main copy and two fp32 moments
# (Megatron distributed optimizer: 2 + 4 + 4 + 4). The embedded engine trains fp32 weights and has no main copy.
BYTES_PER_PARAMETER = {
    ("bf16", "weights"): 2,
    ("bf16", "full"): 14,
    ("fp32", "weights"): 4,
    ("fp32", "full"): 12,
}


def plan_disk(spec: ExperimentSpec, *, num_parameters: int) -> DiskPlan:
    """Space of one save over all roles, and of all saves that stay plus the one being written."""
    width = BYTES_PER_PARAMETER[_precision(spec), spec.checkpoint.what]
    per_save_gib = num_parameters * width * len(roles_of(spec)) / GIB
    kept = saves_kept(spec)
    return DiskPlan(
        disk_gib=spec.hardware.disk_gib,
        per_save_gib=per_save_gib,
        total_gib=per_save_gib * (kept + 1),
        saves_kept=kept,
    )


def saves_kept(spec: ExperimentSpec) -> int:
    """Saves that retention keeps, at most as many as the campaign makes (every n rollouts, and at the end)."""
    retention, checkpoint = spec.checkpoint.retention, spec.checkpoint
    made = -(-spec.rollout.num_rollouts // checkpoint.every_rollouts)
    return min(made, retention.keep_latest + retention.keep_best)


def _precision(spec: ExperimentSpec) -> str:
    """What the checkpoint holds; slime always saves bf16 models in bf16."""
    return "fp32" if spec.engine.kind == "embedded" else spec.trainer.precision
