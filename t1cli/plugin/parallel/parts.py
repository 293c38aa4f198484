"""How a packed stream is cut for a recurrent layer: contiguous parts whose borders lie on each sequence's chunk grid.

A chunked scan computes `CHUNK_TOKENS` tokens at a time, counted from the start of each sequence. Cutting only between
such chunks keeps every chunk whole, so each operation on a chunk is the same one with and without the cut, and the
result of the scan is the same bit for bit once the state is passed on exactly. Whole sequences stay on one rank where
they can: only the sequence that crosses a border needs its predecessor's state.

Zig-zag shards (slime's attention layout, `order`) hold the same tokens elsewhere; `Exchange` says which token goes
where.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from t1cli.plugin.parallel.order import Layout, Rank, local_spans

if TYPE_CHECKING:
    import torch
    from torch import Tensor

CHUNK_TOKENS: Final = 64
"""Tokens of a chunk; flash-linear-attention's chunk_gated_delta_rule uses the same."""


@dataclass(frozen=True)
class Part:
    """What one rank scans: tokens `start` to `end` of the packed stream."""

    start: int
    end: int
    bounds: tuple[int, ...]
    """Cumulative lengths of the (pieces of) sequences inside, from 0 to end - start: a local cu_seqlens."""
    previous: int | None
    """The rank whose last sequence goes on as this part's first; None when that one begins here."""
    following: int | None
    """The rank on which this part's last sequence goes on; None when it ends here."""

    @property
    def num_tokens(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Exchange:
    """One rank's side of the way from zig-zag shards to parts; backwards it is the way back."""

    send_from: Tensor
    """(tokens held,) int64: rows of the shard in the order of the ranks that they go to."""
    send_counts: tuple[int, ...]
    """Rows for each rank."""
    put_at: Tensor
    """(tokens of the part,) int64: rows of the part for what arrives, in the order of the ranks it comes from."""
    receive_counts: tuple[int, ...]
    """Rows from each rank."""

    def to(self, device: torch.device) -> Exchange:
        """The same with its tensors on `device`."""
        return replace(self, send_from=self.send_from.to(device), put_at=self.put_at.to(device))


def cut_stream(lengths: Sequence[int], ranks: int, chunk_tokens: int = CHUNK_TOKENS) -> tuple[Part, ...]:
    """One part per rank, equal in chunks to within one; a rank is empty only when there are fewer chunks than ranks.

    `lengths` are those of the packed sequences, padding included.
    """
    starts = [0, *accumulate(lengths)]
    chunks = [token for start, length in pairwise(starts) for token in range(start, length, chunk_tokens)]
    borders = [*(chunks[rank * len(chunks) // ranks] for rank in range(ranks) if chunks), starts[-1]]
    borders = borders if chunks else [0] * (ranks + 1)
    return tuple(_part(starts, borders, rank) for rank in range(ranks))


def exchange(lengths: Sequence[int], parts: Sequence[Part], rank: int) -> Exchange:
    """What `rank` sends and receives so that zig-zag shards of these sequences become these parts.

    Every length must be a multiple of 2 × ranks, as slime pads it. Raises ValueError otherwise.
    """
    import torch

    if uneven := [length for length in lengths if length % (2 * len(parts))]:
        raise ValueError(f"a sequence of {uneven[0]} tokens has no equal zig-zag shards on {len(parts)} ranks")
    shards = [_zigzag_positions(lengths, len(parts), holder) for holder in range(len(parts))]
    ends = torch.tensor([part.end for part in parts])
    owner = torch.bucketize(shards[rank], ends, right=True)
    part = parts[rank]
    arriving = [held[(held >= part.start) & (held < part.end)] - part.start for held in shards]
    return Exchange(
        send_from=owner.argsort(stable=True),
        send_counts=tuple(torch.bincount(owner, minlength=len(parts)).tolist()),
        put_at=torch.cat(arriving),
        receive_counts=tuple(len(piece) for piece in arriving),
    )


def _part(starts: Sequence[int], borders: Sequence[int], rank: int) -> Part:
    start, end = borders[rank], borders[rank + 1]
    inside = sorted({token for token in starts if start < token < end})
    bounds = tuple(token - start for token in (start, *inside, end)) if end > start else (0,)
    return Part(start, end, bounds, _neighbour(starts, borders, rank, start), _neighbour(starts, borders, rank, end))


def _neighbour(starts: Sequence[int], borders: Sequence[int], rank: int, border: int) -> int | None:
    """The rank across `border` of a part that is not empty, if a sequence goes on there."""
    if borders[rank] == borders[rank + 1] or border in starts:
        return None
    if border == borders[rank]:
        return next(other for other in range(rank - 1, -1, -1) if borders[other] < borders[other + 1])
    return bisect_right(borders, border) - 1


def _zigzag_positions(lengths: Sequence[int], ranks: int, holder: int) -> Tensor:
    import torch

    spans = local_spans(lengths, Layout(context_parallel=ranks, pad_multiple=1), Rank(context=holder))
    pieces = [torch.arange(span.start, span.start + span.length) for span in spans if span.start is not None]
    return torch.cat(pieces) if pieces else torch.zeros(0, dtype=torch.int64)
