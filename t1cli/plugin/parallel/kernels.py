"""Which kernels run the scan and the convolution: flash-linear-attention's on a GPU, plain torch everywhere else.

flash-linear-attention is looked at once, on first use. A version whose functions do not take what is passed here is not
used, and the log says so; `RECORDED` holds the signatures that this was written for (0.4.1, which slime 0.3.0 pins).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from torch import Tensor

from t1cli.plugin.parallel.delta_rule import ScanTokens, gated_delta_rule
from t1cli.plugin.parallel.short_convolution import short_convolution

SCAN: Final = "fla.ops.gated_delta_rule:chunk_gated_delta_rule"
CONVOLUTION: Final = "fla.modules.convolution:causal_conv1d"
RECORDED: Final[Mapping[str, str]] = {
    SCAN: "(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, "
    "use_qk_l2norm_in_kernel=False, cu_seqlens=None, **kwargs)",
    CONVOLUTION: "(x, weight=None, bias=None, residual=None, initial_state=None, output_final_state=False, "
    "activation=None, backend='triton', cu_seqlens=None, chunk_indices=None, **kwargs)",
}
"""flash-linear-attention 0.4.1, without annotations."""
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    SCAN: ("q", "k", "v", "g", "beta", "initial_state", "output_final_state", "use_qk_l2norm_in_kernel", "cu_seqlens"),
    CONVOLUTION: ("x", "weight", "activation", "cu_seqlens"),
}
"""Parameters that are passed by name."""
logger = logging.getLogger(__name__)


def scan(tokens: ScanTokens, states: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
    """`gated_delta_rule` by the kernel for these tensors."""
    kernel = _found(SCAN) if tokens.q.is_cuda else None
    return (
        gated_delta_rule(tokens, states, cu_seqlens) if kernel is None else scan_by(kernel, tokens, states, cu_seqlens)
    )


def scan_by(
    kernel: Callable[..., Any], tokens: ScanTokens, states: Tensor, cu_seqlens: Tensor
) -> tuple[Tensor, Tensor]:
    """The scan by a function with flash-linear-attention's arguments."""
    outputs, final = kernel(
        **tokens._asdict(),
        initial_state=states,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        cu_seqlens=cu_seqlens,
    )
    return outputs, final


def convolve(mixed: Tensor, weight: Tensor, cu_seqlens: Tensor) -> Tensor:
    """`short_convolution` by the kernel for these tensors; weight (C, 1, W)."""
    kernel = _found(CONVOLUTION) if mixed.is_cuda else None
    if kernel is None:
        return short_convolution(mixed, weight, cu_seqlens)
    found: Tensor = kernel(x=mixed, weight=weight.squeeze(1), activation="silu", cu_seqlens=cu_seqlens)[0]
    return found


def unfit(function: Callable[..., Any], place: str) -> str:
    """Why a function found at `place` cannot be called as here; empty when it can."""
    parameters = inspect.signature(function).parameters
    missing = [name for name in NEEDED[place] if name not in parameters]
    return f"{place} takes no `{missing[0]}`" if missing else ""


@lru_cache
def _found(place: str) -> Callable[..., Any] | None:
    module, _, name = place.partition(":")
    try:
        function: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError, RuntimeError) as error:
        # Without a GPU driver triton raises RuntimeError while fla is imported.
        logger.warning("GatedDeltaNet runs in plain torch, slowly: %s cannot be had (%s)", place, error)
        return None
    problem = unfit(function, place)
    if problem:
        logger.warning("GatedDeltaNet runs in plain torch, slowly: %s", problem)
    return None if problem else function
