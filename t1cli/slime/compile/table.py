"""THE table between spec keys and slime's arguments, and what t1 owns besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from t1cli.slime.compile import rows_model, rows_rollout, rows_training
from t1cli.slime.compile.row import Row

TABLE: Final[tuple[Row, ...]] = (
    *rows_training.ROWS[:16],
    *rows_model.ROWS,
    *rows_training.ROWS[16:],
    *rows_rollout.ROWS,
)
"""In the order of an argument list: GPUs and layout, model, training, rollouts."""

OWNED: Final[Mapping[str, str]] = {
    "--data-source-path": "tasks",
    "--eval-function-path": "evaluation",
    "--custom-megatron-init-path": "trainer.gloo_timeout_minutes",
    "--rollout-data-postprocess-path": "algorithm.critic",
    "--custom-reward-post-process-path": "algorithm.length_normalize",
    "--megatron-config-path": "algorithm.critic",
    "--custom-config-path": "engine.kind",
    "--start-rollout-id": "engine.kind",
    "--no-load-optim": "checkpoint.what",
    "--no-load-rng": "checkpoint.what",
    "--finetune": "engine.kind",
    "--ckpt-step": "engine.kind",
    "--wandb-key": "tracking.wandb",
}
"""Arguments of campaigns without a row of their own, and the key that is nearest to them."""

OWNER: Final[Mapping[str, str]] = {**{flag: row.keys[0] for row in TABLE for flag in row.flags}, **OWNED}
"""Every argument that t1 gives, and the key behind it."""
