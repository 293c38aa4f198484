"""The ranks of a context-parallel group as a line along which states travel, and gradients back (catalogue M6).

Each function below is one autograd node, so that what a node sends forwards comes back through it as a gradient. Every
rank of a line must run the same layers in the same order, and each node's output must take part in the loss: a rank
that skips a backward pass leaves its neighbour waiting until the group's time limit. Recomputing a layer in the
backward pass is fine: it sends and receives again, in the same order on every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Line:
    """One rank's neighbours. Ranks are those within `group`."""

    group: Any
    """A process group; None is the default one."""
    previous: int | None
    following: int | None

    def send(self, tensor: Tensor, rank: int) -> Any:
        """Start sending; the work to wait for, together with what it sends."""
        whole = tensor.contiguous()
        return dist.isend(whole, group=self.group, group_dst=rank), whole

    def receive(self, like: Tensor, rank: int) -> Tensor:
        """A tensor of this shape and type from `rank`."""
        found = torch.empty_like(like, memory_format=torch.contiguous_format)
        dist.irecv(found, group=self.group, group_src=rank).wait()  # type: ignore[union-attr]
        return found


def from_previous(line: Line, tensor: Tensor) -> Tensor:
    """The previous rank's `tensor`, zeros where there is none; this rank's goes to the following one."""
    found: Tensor = _Shift.apply(tensor, line)  # type: ignore[no-untyped-call]
    return found


def receive_state(line: Line, shape: tuple[int, ...], anchor: Tensor) -> Tensor:
    """The previous rank's state in fp32 or better, zeros where there is none.

    `anchor` is an input of the layer: the state needs a gradient when the input does.
    """
    found: Tensor = _Receive.apply(anchor, line, shape)  # type: ignore[no-untyped-call]
    return found


def send_state(line: Line, state: Tensor, outputs: Tensor) -> Tensor:
    """Send the state to the following rank, if there is one, and give `outputs` back.

    The outputs pass through so that the state's gradient is asked for when theirs is.
    """
    found: Tensor = _Send.apply(outputs, state, line)  # type: ignore[no-untyped-call]
    return found


class _Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, line: Line) -> Tensor:
        ctx.line = line
        return _pass_on(line, tensor, source=line.previous, target=line.following)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        line = ctx.line
        return _pass_on(line, grad, source=line.following, target=line.previous), None


class _Receive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, line: Line, shape: tuple[int, ...]) -> Tensor:
        ctx.line = line
        blank = anchor.new_zeros(shape, dtype=torch.promote_types(anchor.dtype, torch.float32))
        return blank if line.previous is None else line.receive(blank, line.previous)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:
        line = ctx.line
        if line.previous is not None:
            _settle(line.send(grad, line.previous))
        return None, None, None


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: Tensor, state: Tensor, line: Line) -> Tensor:
        ctx.line, ctx.like = line, torch.empty_like(state, device="meta")
        ctx.device = state.device
        if line.following is not None:
            _settle(line.send(state, line.following))
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        line = ctx.line
        if line.following is None:
            return grad, None, None
        return grad, line.receive(torch.empty_like(ctx.like, device=ctx.device), line.following), None


def _pass_on(line: Line, tensor: Tensor, *, source: int | None, target: int | None) -> Tensor:
    sending = None if target is None else line.send(tensor, target)
    found = torch.zeros_like(tensor) if source is None else line.receive(tensor, source)
    if sending is not None:
        _settle(sending)
    return found


def _settle(sending: tuple[Any, Tensor]) -> None:
    sending[0].wait()
