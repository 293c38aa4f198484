"""From zig-zag shards to contiguous parts and back, by one all-to-all each way; gradients go the other way."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from t1cli.plugin.parallel.parts import Exchange


def to_part(shard: Tensor, exchange: Exchange, group: Any = None) -> Tensor:
    """(tokens held, …) of this rank's zig-zag shard to (tokens of its part, …)."""
    found: Tensor = _ToPart.apply(shard, exchange, group)  # type: ignore[no-untyped-call]
    return found


def to_shard(part: Tensor, exchange: Exchange, group: Any = None) -> Tensor:
    """(tokens of the part, …) to (tokens held, …) of the zig-zag shard."""
    found: Tensor = _ToShard.apply(part, exchange, group)  # type: ignore[no-untyped-call]
    return found


class _ToPart(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shard: Tensor, exchange: Exchange, group: Any) -> Tensor:
        ctx.exchange, ctx.group = exchange, group
        return _to_part(shard, exchange, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _to_shard(grad, ctx.exchange, ctx.group), None, None


class _ToShard(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, exchange: Exchange, group: Any) -> Tensor:
        ctx.exchange, ctx.group = exchange, group
        return _to_shard(part, exchange, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _to_part(grad, ctx.exchange, ctx.group), None, None


def _to_part(shard: Tensor, exchange: Exchange, group: Any) -> Tensor:
    sent = shard.index_select(0, exchange.send_from.to(shard.device))
    arrived = shard.new_empty(sum(exchange.receive_counts), *shard.shape[1:])
    dist.all_to_all_single(arrived, sent, list(exchange.receive_counts), list(exchange.send_counts), group=group)
    return torch.empty_like(arrived).index_copy_(0, exchange.put_at.to(shard.device), arrived)


def _to_shard(part: Tensor, exchange: Exchange, group: Any) -> Tensor:
    sent = part.index_select(0, exchange.put_at.to(part.device))
    arrived = part.new_empty(sum(exchange.send_counts), *part.shape[1:])
    dist.all_to_all_single(arrived, sent, list(exchange.send_counts), list(exchange.receive_counts), group=group)
    return torch.empty_like(arrived).index_copy_(0, exchange.send_from.to(part.device), arrived)
