"""Active parameters as model cards count them: a check of the parameter counts against published figures."""

from __future__ import annotations

from memory_model.architecture import Architecture
from memory_model.parameters import text_parameters


def active_parameters(arch: Architecture) -> int:
    """Parameters that one token passes through, embedding rows counted whole (the convention of model cards)."""
    total = text_parameters(arch)
    if not arch.is_moe:
        return total.total
    inactive = total.experts * (arch.num_experts - arch.num_experts_per_tok) // arch.num_experts
    return total.total - inactive
