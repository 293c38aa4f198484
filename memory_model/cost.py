"""A relative price of layouts, to put those that fit in an order: not a time model, a stated objective."""

from __future__ import annotations

from typing import Literal

from memory_model.architecture import Architecture
from memory_model.layout import Layout
from memory_model.workload import Workload

Objective = Literal["throughput", "headroom"]

TP_COST = 0.06
"""Share of a step that each doubling of TP adds in exposed communication (Llama 70B, TP4 to TP8: -28 %, Bridge)."""
CP_COST, EP_COST, ETP_COST = 0.02, 0.015, 0.05
OFFLOAD_COST = 0.9
"""CPU Adam's share of a step at fraction 1 (Megatron-Bridge: 1.9 x step time at a quarter, 4.2 x with tiny batches)."""
RECOMPUTE_COST = {"none": 0.0, "selective": 0.05, "block": 0.2, "uniform": 0.3}
"""A full recomputation repeats the forward third of the work."""


def score(arch: Architecture, layout: Layout, workload: Workload, objective: Objective) -> float:
    """Relative throughput: 1 over the product of pipeline bubble, communication, recomputation and offload.

    `headroom` orders by memory alone and scores every layout the same.
    """
    if objective == "headroom":
        return 0.0
    micro_batches = max(1, workload.micro_batches)
    bubble = 1 + (layout.pp - 1) / (layout.vpp * micro_batches)
    return 1 / (bubble * _communication(arch, layout) * _recompute(workload) * _offload(workload))


def _communication(arch: Architecture, layout: Layout) -> float:
    doublings = {"tp": layout.tp, "cp": layout.cp, "ep": layout.ep if arch.is_moe else 1, "etp": layout.etp}
    price = {"tp": TP_COST, "cp": CP_COST, "ep": EP_COST, "etp": ETP_COST}
    return 1 + sum(price[axis] * (size.bit_length() - 1) for axis, size in doublings.items())


def _recompute(workload: Workload) -> float:
    return 1 + RECOMPUTE_COST[workload.recompute.kind]


def _offload(workload: Workload) -> float:
    return 1 + OFFLOAD_COST * workload.optimizer.offload_fraction
