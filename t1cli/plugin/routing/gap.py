"""Gap and mismatch KL between trainer and sampler under slime, and the gate before the first actor step.

slime's own `train_rollout_logprob_abs_diff` goes through the loss's reducer, whose denominators belong to groups of
samples. Here sums of all data-parallel ranks are divided once, by all trained tokens (catalogue F6 at train).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from t1cli.run.metric_names import MISMATCH_KL
from t1cli.terminal.trajectory.mismatch import LogProbSums, log_prob_sums, refuse_first_gap, total

GAP = "train/log_prob_gap"
"""Mean |trainer - sampler| over trained tokens; a name of its own, since slime logs another reduction under its own."""
_checked: set[str] = set()


def log_mismatch(args: Any, rollout_id: int, rollout_data: dict[str, Any]) -> None:
    """Log one rollout's mismatch; every rank of the last pipeline stage must call it. Raises T1Error at the gate.

    All ranks see the same sums, so all of them stop.
    """
    from t1cli.plugin.settings import settings_of
    from t1cli.plugin.value_fit import data_parallel_group, log_step, logs_here, steps_per_rollout

    if not rollout_data.get("log_probs") or not rollout_data.get("rollout_log_probs"):
        return
    sums = over_ranks(local_sums(args, rollout_data), group=data_parallel_group())
    if not sums.tokens:
        return
    if logs_here():
        metrics = {GAP: sums.gap, MISMATCH_KL: sums.kl}
        log_step(args, rollout_id * steps_per_rollout(args), metrics)
    settings = settings_of(args)
    session = f"{settings.run.path}/{settings.session}"
    if session not in _checked:
        refuse_first_gap(sums, settings.spec.rollout.first_gap_limit)
        _checked.add(session)


def local_sums(args: Any, data: dict[str, Any]) -> LogProbSums:
    """This rank's sums: lists of 1-D tensors per sample, masks cut to the rank's part of the response."""
    from t1cli.plugin.value_fit import own_part

    parts = []
    for index, (trainer, sampler, mask) in enumerate(
        zip(data["log_probs"], data["rollout_log_probs"], data["loss_masks"], strict=True)
    ):
        own = mask if len(mask) == len(trainer) else own_part(args, data, index, mask)
        parts.append(log_prob_sums(*_on_host((trainer, sampler, own))))
    return total(parts)


def over_ranks(sums: LogProbSums, *, group: Any = None) -> LogProbSums:
    """The sums of all ranks of a group; a division comes after this, never before."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return sums
    device = torch.device("cpu" if dist.get_backend(group) == "gloo" else f"cuda:{torch.cuda.current_device()}")
    together = torch.tensor([sums.tokens, sums.absolute, sums.k3], dtype=torch.float64, device=device)
    dist.all_reduce(together, group=group)
    tokens, absolute, k3 = together.tolist()
    return LogProbSums(int(tokens), absolute, k3)


def _on_host(tensors: Sequence[Any]) -> list[Any]:
    return [tensor.detach().float().cpu().numpy() for tensor in tensors]
