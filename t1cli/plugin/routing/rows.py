"""Routing rows as one rank's routers need them: checked against their tokens, then taken through the tokens' order.

For `megatron_routers` and `torch_routers`, and so for a trainer of your own.

Shapes: T tokens of a sequence, L layers, K experts per token, E experts, H tokens that the rank holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from t1cli.plugin.parallel.order import Layout, Rank, local_spans
from t1cli.plugin.parallel.shard import take
from t1cli.terminal.trajectory.routing import RoutingShape, WrongRouting

if TYPE_CHECKING:
    from torch import Tensor


def local_rows(
    rows: Sequence[Tensor], lengths: Sequence[int], shape: RoutingShape, layout: Layout, rank: Rank
) -> Tensor:
    """(H, L, K) int64: what this rank's routers replay, for sequences with rows (T - 1, L, K) of any integer type.

    The last token of a sequence has no row, as nothing was sampled after it: it and all padding get spread-out experts,
    since no loss and no later token depends on them. Raises WrongRouting for rows that cannot belong to the tokens.
    """
    import torch

    if len(rows) != len(lengths):
        raise WrongRouting(f"routing of {len(rows)} sequences for {len(lengths)}")
    for index, (one, length) in enumerate(zip(rows, lengths, strict=True)):
        check_rows(one, length, shape, name=f"sequence {index}")
    spread = spread_experts(shape)
    whole = [piece for one in rows for piece in (one.long(), spread[:1])]
    return take(torch.cat(whole), local_spans(lengths, layout, rank), spread)


def check_rows(rows: Tensor, length: int, shape: RoutingShape, *, name: str) -> None:
    """One row per token but the last, each a set of K different experts. Raises WrongRouting that says what it found.

    An expert that is named twice would silently be used once: what top-k selects is always a set.
    """
    if tuple(rows.shape) != (length - 1, shape.layers, shape.top_k):
        raise WrongRouting(
            f"{name}: routing of shape {tuple(rows.shape)} for {length} tokens, "
            f"expected {(length - 1, shape.layers, shape.top_k)}"
        )
    if not rows.numel():
        return
    ordered = rows.long().sort(dim=-1).values
    low, high = int(ordered[..., 0].min()), int(ordered[..., -1].max())
    if low < 0 or high >= shape.experts:
        raise WrongRouting(f"{name}: expert indices {low}..{high} outside 0..{shape.experts - 1}")
    twice = (ordered[..., 1:] == ordered[..., :-1]).any(dim=-1)
    if bool(twice.any()):
        position, layer = (int(place) for place in twice.nonzero()[0])
        raise WrongRouting(
            f"{name}: position {position}, layer {layer} names an expert twice: {rows[position, layer].tolist()}"
        )


def spread_experts(shape: RoutingShape) -> Tensor:
    """(E, L, K): rows for tokens whose routing nothing depends on, over all experts so that none gets all of them."""
    import torch

    per_token = shape.layers * shape.top_k
    return (torch.arange(shape.experts * per_token) % shape.experts).view(shape.experts, shape.layers, shape.top_k)
