"""The one place where a launch asks the slime room for the command of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t1cli.launch.run_directory import RunDirectory
from t1cli.launch.save_directories import save_directories
from t1cli.slime.start_point import StartPoint, base_arguments, role_overrides
from t1cli.spec.algorithm import PPO
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.experiment import ExperimentSpec

_METRIC_LINES: Final = r"(step|rollout|perf|eval) \d+: \{"


@dataclass(frozen=True)
class Compiled:
    """The command of one session."""

    argv: tuple[str, ...]
    """From the entry script on."""
    env: Mapping[str, str]
    role_file: Mapping[str, Any] | None


def compile_session(spec: ExperimentSpec, run: RunDirectory, start: StartPoint) -> Compiled:
    """Arguments, environment and role file of a session that begins at `start`."""
    engine = spec.engine
    assert isinstance(engine, SlimeEngine)
    flags = {**_flags(spec, run), **base_arguments(start, actor_dir=str(save_directories(spec, run).actor))}
    words = [word for name, value in flags.items() for word in ((name,) if value is True else (name, str(value)))]
    entry = "train.py" if spec.rollout.pipeline == "sync" else "train_async.py"
    env = {
        "PYTHONPATH": f"{engine.slime_dir}:{engine.megatron_dir}",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "PYTHONUNBUFFERED": "1",
        "RAY_JOB_STOP_WAIT_TIME_S": "60",
        # Ray prints one of several equal-looking lines; metrics must all come through.
        "RAY_DEDUP_LOGS_ALLOW_REGEX": _METRIC_LINES,
        **engine.env,
    }
    return Compiled((f"{engine.slime_dir}/{entry}", *words), env, _role_file(spec, run, start))


def _flags(spec: ExperimentSpec, run: RunDirectory) -> dict[str, Any]:
    rollout, directories = spec.rollout, save_directories(spec, run)
    flags: dict[str, Any] = {
        "--advantage-estimator": spec.algorithm.kind,
        "--num-rollout": rollout.num_rollouts,
        "--rollout-batch-size": rollout.batch_size,
        "--n-samples-per-prompt": rollout.samples_per_prompt,
        "--global-batch-size": rollout.batch_size * rollout.samples_per_prompt,
        "--save": directories.actor,
        "--save-interval": spec.checkpoint.every_rollouts,
        "--rollout-function-path": "t1cli.plugin.hooks.generate_rollout",
        "--eval-function-path": "t1cli.plugin.hooks.generate_rollout",
        "--data-source-path": "t1cli.plugin.hooks.TaskSource",
        "--custom-megatron-init-path": "t1cli.plugin.hooks.start_trainer",
        "--custom-config-path": "t1.yaml",
    }
    if isinstance(spec.algorithm, PPO):
        flags["--num-critic-only-steps"] = spec.algorithm.critic.critic_only_steps
        flags["--rollout-data-postprocess-path"] = "t1cli.plugin.hooks.explain_variance"
        flags["--megatron-config-path"] = "roles.yaml"
    else:
        flags["--custom-reward-post-process-path"] = "t1cli.plugin.hooks.group_rewards"
    return flags


def _role_file(spec: ExperimentSpec, run: RunDirectory, start: StartPoint) -> dict[str, Any] | None:
    if not isinstance(spec.algorithm, PPO):
        return None
    directories = save_directories(spec, run)
    starts = role_overrides(start, critic_dir=str(directories.critic))
    actor = {"save": str(directories.actor), "lr": spec.algorithm.actor_learning_rate, **starts["actor"]}
    critic = {"save": str(directories.critic), "lr": spec.algorithm.critic.learning_rate, **starts["critic"]}
    return {
        "megatron": [
            {"name": "actor", "role": "actor", "overrides": actor},
            {"name": "critic", "role": "critic", "overrides": critic},
        ]
    }
