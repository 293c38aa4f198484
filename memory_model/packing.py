"""Tokens of a micro-batch: the packing cap, context parallelism and the longest sample (M7)."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model.workload import Workload


@dataclass(frozen=True)
class CapAdvice:
    """Whether the packing cap binds, and what lowering it would do."""

    effective_tokens: int
    cap_binds: bool
    message: str


def cap_advice(workload: Workload, cp: int) -> CapAdvice:
    """Whether `max_tokens_per_gpu` can lower memory at all, with the reason when it cannot."""
    effective = workload.tokens_per_rank(cp)
    cap, longest = workload.max_tokens_per_gpu, workload.longest_sample_tokens
    share = -(-longest // cp)
    if cap >= share:
        return CapAdvice(effective, True, f"the cap of {cap:,} tokens binds; the longest sample needs {share:,}")
    return CapAdvice(
        effective,
        False,
        f"the longest sample is {longest:,} tokens, {share:,} per GPU at cp {cp}, and cannot be split: "
        f"lowering max_tokens_per_gpu from {cap:,} changes nothing in the peak and only adds micro-batches; "
        f"raise cp or bound the sample",
    )
