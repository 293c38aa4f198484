"""The only dotted paths given to slime, each a thin call into a room.

| argument of slime | path |
|---|---|
| `--rollout-function-path`, `--eval-function-path` | `t1cli.plugin.hooks.generate_rollout` |
| `--rollout-function-path` (`engine.rollout_loop: slime`) | `t1cli.plugin.hooks.generate_rollout_by_slime` |
| `--rollout-function-path` (fully async) | `t1cli.plugin.hooks.generate_rollout_fully_async` |
| `--custom-generate-function-path` (either) | `t1cli.plugin.hooks.generate` |
| `--dynamic-sampling-filter-path` (`engine.rollout_loop: slime`) | `t1cli.plugin.hooks.filter_group` |
| `--data-source-path` | `t1cli.plugin.hooks.TaskSource` |
| `--custom-reward-post-process-path` (GRPO) | `t1cli.plugin.hooks.group_rewards` |
| `--rollout-data-postprocess-path` (PPO) | `t1cli.plugin.hooks.explain_variance` |
| `--rollout-data-postprocess-path` (GRPO) | `t1cli.plugin.hooks.measure_mismatch` |
| `--custom-megatron-before-log-prob-hook-path` (routing replay) | `t1cli.plugin.hooks.count_flips` |
| `--custom-tis-function-path` (correction recorded) | `t1cli.plugin.hooks.record_correction` |
| `--custom-megatron-init-path` | `t1cli.plugin.hooks.start_trainer` |
| `--spec` (GatedDeltaNet split over CP) | `t1cli.plugin.hooks` and `qwen3_5_spec` or `qwen3_next_spec` |
| Ray's `worker_process_setup_hook` | `t1cli.plugin.hooks.set_up_worker` |

Settings reach them as the key `t1` of slime's `--custom-config-path` file. Imports stay inside the functions: Ray
loads this module in every process of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from t1cli.plugin.task_source import TaskSource as TaskSource


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """One rollout or one evaluation on terminal tasks, as slime's RolloutFnTrainOutput or RolloutFnEvalOutput."""
    from t1cli.plugin.rollout import evaluate, generate_batch

    return evaluate(args, rollout_id) if evaluation else generate_batch(args, rollout_id)


def generate_rollout_by_slime(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """One rollout by slime's stock loop, which calls `generate` for each trial; an evaluation as above."""
    from t1cli.plugin.rollout import evaluate
    from t1cli.plugin.slime_loops import generate_by_slime

    return evaluate(args, rollout_id) if evaluation else generate_by_slime(args, rollout_id, data_source)


def generate_rollout_fully_async(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """The next batch of slime's asynchronous worker, whose trials run on over rollouts; an evaluation as above."""
    from t1cli.plugin.rollout import evaluate
    from t1cli.plugin.slime_loops import generate_fully_async

    return evaluate(args, rollout_id) if evaluation else generate_fully_async(args, rollout_id, data_source)


def filter_group(args: Any, group: list[Any], **more: Any) -> Any:
    """Whether slime's stock loop keeps a group: not one with a lost trial, nor one that the spec's filter drops."""
    from t1cli.plugin.slime_loops import filter_group as kept

    return kept(args, group)


async def generate(args: Any, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False) -> Any:
    """One trial for slime's own rollout loops: a list of Samples with one group_id, rewards included, or ABORTED."""
    from t1cli.plugin.generate import play

    return await play(args, sample, sampling_params, evaluation=evaluation)


def group_rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Raw rewards and per-group z-scores over trainable samples alone."""
    from t1cli.plugin.group_rewards import raw_and_shaped

    return raw_and_shaped(args, samples)


def explain_variance(args: Any, rollout_id: int, rollout_data: dict[str, Any]) -> None:
    """Log the critic's explained variance over loss tokens of all ranks, and what `measure_mismatch` does."""
    from t1cli.plugin.value_fit import log_value_fit

    log_value_fit(args, rollout_id, rollout_data)
    measure_mismatch(args, rollout_id, rollout_data)


def measure_mismatch(args: Any, rollout_id: int, rollout_data: dict[str, Any]) -> None:
    """Log flipped experts and the gap to the sampler over all ranks; changes nothing in the data, and stops a session
    whose gap before its first step is too large."""
    from t1cli.plugin.routing.flips import log_flips
    from t1cli.plugin.routing.gap import log_mismatch

    log_flips(args, rollout_id, rollout_data)
    log_mismatch(args, rollout_id, rollout_data)


def count_flips(args: Any, model: Any, store_prefix: str) -> None:
    """From the actor's own log-prob pass to `measure_mismatch`, see which experts the trainer alone would choose."""
    from t1cli.plugin.routing.live_choice import start

    start(args, store_prefix)


def record_correction(args: Any, *, pg_loss: Any, loss_masks: Any, **more: Any) -> Any:
    """Importance weights between trainer and engine as metrics; the loss stays as it is."""
    from t1cli.plugin.record_correction import recorded

    pairs = {name: more[name] for name in ("train_log_probs", "rollout_log_probs")}
    return recorded(args, pg_loss=pg_loss, loss_masks=loss_masks, **pairs)


def start_trainer(args: Any) -> None:
    """Lengthen the time limits that slime leaves at their defaults; runs in every trainer rank."""
    from t1cli.plugin.patches.apply import patch_trainer

    patch_trainer(args)


def qwen3_5_spec(args: Any, config: Any, vp_stage: int | None) -> Any:
    """slime's layers of a Qwen3.5 model, the linear ones split over context-parallel ranks."""
    from t1cli.plugin.parallel.slime_layers import QWEN3_5, split_spec

    return split_spec(QWEN3_5, args, config, vp_stage)


def qwen3_next_spec(args: Any, config: Any, vp_stage: int | None) -> Any:
    """slime's layers of a Qwen3-Next model, the linear ones split over context-parallel ranks."""
    from t1cli.plugin.parallel.slime_layers import QWEN3_NEXT, split_spec

    return split_spec(QWEN3_NEXT, args, config, vp_stage)


def set_up_worker() -> None:
    """Bound slime's control-plane HTTP; runs in every process of the job before its own code."""
    from t1cli.plugin.patches.control_plane import patch_on_import

    patch_on_import()


def __getattr__(name: str) -> Any:
    if name == "TaskSource":
        from t1cli.plugin.task_source import TaskSource

        return TaskSource
    raise AttributeError(name)
