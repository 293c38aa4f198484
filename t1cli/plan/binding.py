"""Which term binds: the largest one that a layout or a workload can change."""

from __future__ import annotations

from collections.abc import Mapping

# Fixed by the model and the number of GPUs.
STATES = ("weights", "gradients", "optimizer")
# Fixed by the machine and the software on it. Every other term grows with the tokens of a micro-batch.
OVERHEAD = (
    "allocator reserve",
    "CUDA context and libraries",
    "NCCL communicators",
    "memory saver margin",
    "other role's process",
    "calibrated constant",
    "weight-gradient placeholders",
    "workspaces",
)


def binding_term(terms: Mapping[str, float]) -> tuple[str, float]:
    """The largest term besides states and overhead, or the largest of all when nothing else is there."""
    others = {name: gib for name, gib in terms.items() if name not in STATES and name not in OVERHEAD}
    return max((others or terms).items(), key=lambda item: item[1])


def states_gib(terms: Mapping[str, float]) -> float:
    """Weights, gradients and optimizer together."""
    return sum(terms.get(name, 0.0) for name in STATES)
