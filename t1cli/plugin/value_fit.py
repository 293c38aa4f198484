"""Explained variance of the critic under slime: masked to loss tokens, summed over all data-parallel ranks.

1 - Var(returns - values) / Var(returns), with the values before the critic's update. slime logs neither this nor
anything else about the fit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from t1cli.run.metric_names import EXPLAINED_VARIANCE, TRAIN_STEP

_LEAST_VARIANCE: Final = 1e-12
logger = logging.getLogger(__name__)


def log_value_fit(args: Any, rollout_id: int, rollout_data: dict[str, Any]) -> None:
    """Log the fit of one rollout from the last pipeline stage's first rank; every rank of that stage must call it."""
    values, returns = rollout_data.get("values"), rollout_data.get("returns")
    if not values or not returns:
        return
    metrics = fit_of(_local_sums(args, rollout_data), group=data_parallel_group())
    if metrics and logs_here():
        log_step(args, rollout_id * steps_per_rollout(args), metrics)


def fit_of(sums: Any, *, group: Any = None) -> dict[str, float]:
    """Metrics from this rank's (5,) sums; empty when no rank holds a loss token. Reduces over `group`."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(sums, group=group)
    count, sum_r, sum_r2, sum_e, sum_e2 = sums.tolist()
    if count <= 0:
        return {}
    variance = max(0.0, sum_r2 / count - (sum_r / count) ** 2)
    error = max(0.0, sum_e2 / count - (sum_e / count) ** 2)
    metrics = {"train/value_mean": (sum_r - sum_e) / count, "train/return_mean": sum_r / count}
    # Equal returns leave nothing to explain; a division by almost zero would be a number without meaning.
    return metrics | ({EXPLAINED_VARIANCE: 1.0 - error / variance} if variance >= _LEAST_VARIANCE else {})


def sums_of(values: Sequence[Any], returns: Sequence[Any], masks: Sequence[Any]) -> Any:
    """(5,) float64: loss tokens, Σ return, Σ return², Σ error, Σ error², error = return - value. Lists of 1-D tensors.

    float64: the difference of two large sums is what a variance is.
    """
    import torch

    total = torch.zeros(5, dtype=torch.float64, device=values[0].device)
    for value, target, mask in zip(values, returns, masks, strict=True):
        kept = mask.to(value.device).bool()
        r, v = target[kept].double(), value[kept].double()
        error = r - v
        count = torch.tensor(float(r.numel()), dtype=torch.float64, device=total.device)
        total += torch.stack([count, r.sum(), (r * r).sum(), error.sum(), (error * error).sum()])
    return total


def _local_sums(args: Any, data: dict[str, Any]) -> Any:
    masks = [
        own_part(args, data, i, mask) if len(mask) != len(value) else mask
        for i, (mask, value) in enumerate(zip(data["loss_masks"], data["values"], strict=True))
    ]
    return sums_of(data["values"], data["returns"], masks)


def own_part(args: Any, data: dict[str, Any], index: int, mask: Any) -> Any:
    """The part of a response's mask that belongs to this context-parallel rank."""
    from slime.backends.megatron_utils.cp_utils import slice_log_prob_with_cp  # type: ignore[import-not-found]

    lengths = data["total_lengths"][index], data["response_lengths"][index]
    if "max_seq_lens" not in data:  # packed, as v0.3.1 always is
        return slice_log_prob_with_cp(mask, *lengths)
    return slice_log_prob_with_cp(mask, *lengths, args.qkv_format, data["max_seq_lens"][index])


def data_parallel_group() -> Any:
    """Ranks that hold other tokens of the same step; None for all of them."""
    mpu = parallel_state()
    return None if mpu is None else mpu.get_data_parallel_group(with_context_parallel=True)


def logs_here() -> bool:
    """Whether this rank is the one of the last pipeline stage that logs."""
    mpu = parallel_state()
    if mpu is None:
        import torch.distributed as dist

        return not dist.is_initialized() or dist.get_rank() == 0
    first = mpu.get_data_parallel_rank(with_context_parallel=True) == 0 and mpu.get_tensor_model_parallel_rank() == 0
    return bool(first and mpu.is_pipeline_last_stage())


def parallel_state() -> Any:
    """Megatron's parallel state; None where there is none, as in a test."""
    try:
        from megatron.core import mpu
    except ImportError:
        return None
    return mpu if mpu.model_parallel_is_initialized() else None


def steps_per_rollout(args: Any) -> int:
    """Optimizer steps of a rollout, as slime counts them."""
    return max(1, int(args.rollout_batch_size * args.n_samples_per_prompt // args.global_batch_size))


def log_step(args: Any, step: int, metrics: dict[str, float]) -> None:
    """Metrics on slime's training axis, in its log and its trackers."""
    from slime.utils import logging_utils  # type: ignore[import-not-found]

    # The form of slime's own training line, so that whoever reads its log finds these beside the others.
    logger.info("step %d: %s", step, metrics)
    logging_utils.log(args, {**metrics, TRAIN_STEP: step}, step_key=TRAIN_STEP)
