"""Main gradients: one contiguous buffer per dtype and bucket kind, never sharded (ZeRO-1)."""

from __future__ import annotations

from memory_model.terms.weights import LocalCounts
from memory_model.workload import Optimizer


def gradient_bytes(counts: LocalCounts, optimizer: Optimizer) -> float:
    """fp32 by default (`--accumulate-allreduce-grads-in-fp32`); bucket padding is below 0.1 % and left out.

    Source: megatron/core/distributed/param_and_grad_buffer.py; padding in megatron/core/optimizer/param_layout.py.
    """
    return optimizer.grad_bytes * (counts.dense + counts.experts)
