"""Tensors in the order that `order` describes: tokens, masks and routing rows by the same spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from t1cli.plugin.parallel.order import Span

if TYPE_CHECKING:
    from torch import Tensor


def take(values: Tensor, spans: Sequence[Span], padding: Tensor) -> Tensor:
    """(held, …) of `values` (tokens of the micro-batch, …); a padding token gets the next row of `padding` (P, …).

    The rows of `padding` are used in turn, so that many padding tokens need not all hold the same.
    """
    import torch

    pieces, used = [], 0
    for span in spans:
        if span.start is not None:
            pieces.append(values[span.start : span.start + span.length])
            continue
        rows = torch.arange(used, used + span.length, device=padding.device) % len(padding)
        pieces.append(padding[rows])
        used += span.length
    return torch.cat(pieces) if pieces else values[:0]
