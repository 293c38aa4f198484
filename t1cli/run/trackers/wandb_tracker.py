"""Weights & Biases: one run per attempt, on slime's step axes, with nothing of the machine or the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from t1cli.run.directory import RunDirectory
from t1cli.run.metric_names import EVAL_STEP, ROLLOUT_STEP, TRAIN_STEP
from t1cli.spec.tracking import WandbSpec

_AXIS_OF = {
    "train/*": TRAIN_STEP,
    "rollout/*": ROLLOUT_STEP,
    "terminal/*": ROLLOUT_STEP,
    "perf/*": ROLLOUT_STEP,
    "eval/*": EVAL_STEP,
}


def quiet_settings() -> Any:
    """Settings of a W&B run that says nothing of this machine, its environment or the command line."""
    import wandb

    return wandb.Settings(
        x_disable_meta=True,
        x_disable_stats=True,
        disable_git=True,
        disable_code=True,
        disable_job_creation=True,
        console="off",
        silent=True,
    )


class WandbTracker:
    """Logs into the run directory's `wandb/`, and to the server in online mode. The key comes from the environment."""

    name = "wandb"

    def __init__(self, spec: WandbSpec, run: RunDirectory, config: Mapping[str, Any]) -> None:
        import wandb

        self._run = wandb.init(
            project=spec.project,
            group=spec.group or run.name,
            name=f"{run.name}-attempt_{run.attempt}",
            mode=spec.mode,
            dir=str(run.path),
            config=dict(config),
            settings=quiet_settings(),
        )
        for pattern, axis in _AXIS_OF.items():
            self._run.define_metric(pattern, step_metric=axis)

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """Values beside their own step axis; W&B's arrival counter means nothing."""
        self._run.log({axis: step, **values})

    def close(self) -> None:
        """Flush and finish."""
        self._run.finish()
