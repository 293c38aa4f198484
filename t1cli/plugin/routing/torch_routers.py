"""Replay for MoE routers in plain torch, for a trainer of your own; their code stays, only their top-k is substituted.

While a router's forward runs, `torch.topk` over its experts returns the recorded indices, and the values gathered from
the scores it was given. Whatever the router does before and after (softmax on either side, sigmoid, a selection bias,
renormalising, scaling) stays as it is: indices carry no gradient, scores keep theirs. The values are gathered from the
full scores, not from what a live top-k kept, so that an expert that the trainer would not have chosen has a gradient.

Shapes: N tokens of a forward pass, L routers, K experts per token, E experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from t1cli.errors import T1Error
from t1cli.terminal.trajectory.routing import RoutingShape, WrongRouting

_TOPK = (torch.topk, Tensor.topk)


@contextmanager
def replaying(routers: Sequence[nn.Module], rows: Tensor, shape: RoutingShape) -> Iterator[None]:
    """The routers select rows (N, L, K) inside the block, router i those of layer i. The backward pass belongs inside
    it when activations are recomputed. Raises WrongRouting, and T1Error for a router that selects otherwise."""
    if rows.ndim != 3 or tuple(rows.shape[1:]) != (len(routers), shape.top_k):
        raise WrongRouting(f"routing rows {tuple(rows.shape)} for {len(routers)} routers of top-{shape.top_k}")
    with ExitStack() as stack:
        for layer, router in enumerate(routers):
            stack.enter_context(_replayed(router, rows[:, layer].long(), shape, layer))
        yield


@contextmanager
def _replayed(router: nn.Module, experts: Tensor, shape: RoutingShape, layer: int) -> Iterator[None]:
    own_forward = router.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with _Selection(experts, shape) as selection:
            result = own_forward(*args, **kwargs)
        if selection.uses != 1:
            raise T1Error(
                f"router {layer} ({type(router).__name__}) selected {selection.uses} times by top-{shape.top_k} over "
                f"{shape.experts} experts, expected once: its routing was not replayed",
                hint="replay such a router by a wrapper of its own; a fused top-k cannot be substituted",
            )
        return result

    router.forward = forward
    try:
        yield
    finally:
        del router.forward


class _Selection(TorchFunctionMode):
    """Answers top-k over the experts from the record."""

    def __init__(self, experts: Tensor, shape: RoutingShape) -> None:
        super().__init__()
        self._experts, self._shape, self.uses = experts, shape, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _TOPK or not self._selects(*args, **kwargs):
            return func(*args, **kwargs)
        self.uses += 1
        scores: Tensor = args[0] if args else kwargs["input"]
        wanted = scores.shape[:-1].numel()
        if wanted != len(self._experts):
            raise WrongRouting(f"{len(self._experts)} routing rows for {wanted} tokens")
        indices = self._experts.to(scores.device).view(*scores.shape[:-1], -1)
        return torch.return_types.topk((scores.gather(-1, indices), indices))

    def _selects(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a call chooses K of E, and not groups of experts or the best of a group."""
        scores = args[0] if args else kwargs["input"]
        k = args[1] if len(args) > 1 else kwargs["k"]
        dim = args[2] if len(args) > 2 else kwargs.get("dim", -1)
        last = dim in (-1, scores.ndim - 1)
        return bool(last and k == self._shape.top_k and scores.shape[-1] == self._shape.experts)
