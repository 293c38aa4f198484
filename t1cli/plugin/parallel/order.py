"""Which tokens of a micro-batch a rank holds, and in which order: the one transformation that tokens, masks and routing
rows all take.

The order is that of slime v0.3.0 (`backends/megatron_utils/data.py: get_batch`, `cp_utils.py: slice_with_cp`): each
sequence is padded to 2 × CP equal chunks of which context-parallel rank r holds chunks r and 2 × CP − 1 − r (zig-zag),
the shards are joined in the order of the sequences, the joined stream is padded to a multiple of TP × 128, and under
sequence parallelism tensor-parallel rank t holds its t-th contiguous part. Any other composition gives the same shapes
and other positions. No tensors here: a span is two integers, so a plan, a kernel and a test can all use it.

Positions count through the micro-batch: sequence i begins at the sum of the lengths before it.

(catalogue F3)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

PADDING = -1
"""Position of a token that no sequence holds."""


@dataclass(frozen=True)
class Span:
    """Consecutive tokens of the micro-batch, or `length` tokens of padding (start None)."""

    start: int | None
    length: int

    def cut(self, first: int, end: int) -> Span:
        """Its tokens number `first` to `end` (exclusive)."""
        return Span(None if self.start is None else self.start + first, end - first)


@dataclass(frozen=True)
class Layout:
    """How the ranks of a model-parallel group share one micro-batch."""

    context_parallel: int = 1
    tensor_parallel: int = 1
    sequence_parallel: bool = False
    """Whether each tensor-parallel rank holds its own part of the stream outside attention (where routers run)."""
    pad_multiple: int = 128
    """The stream is padded to a multiple of tensor_parallel × this (slime's data_pad_size_multiplier)."""


@dataclass(frozen=True)
class Rank:
    """One rank's place in its groups."""

    context: int = 0
    tensor: int = 0


def local_spans(lengths: Sequence[int], layout: Layout, rank: Rank) -> tuple[Span, ...]:
    """What one rank holds of sequences of these lengths, in order, padding included."""
    starts = [0, *accumulate(lengths)]
    shards = [
        span
        for start, length in zip(starts, lengths, strict=False)
        for span in zigzag_shard(start, length, layout.context_parallel, rank.context)
    ]
    stream = padded(shards, layout.tensor_parallel * layout.pad_multiple)
    if not layout.sequence_parallel:
        return stream
    return contiguous_part(stream, layout.tensor_parallel, rank.tensor)


def zigzag_shard(start: int, length: int, context_parallel: int, context_rank: int) -> tuple[Span, ...]:
    """Chunks r and 2 × CP − 1 − r of one sequence that begins at `start`; without context parallelism all of it."""
    if context_parallel == 1:
        return (Span(start, length),) if length else ()
    chunk = zigzag_chunk(length, context_parallel)
    places = (context_rank, 2 * context_parallel - 1 - context_rank)
    return tuple(span for place in places for span in _within(start, length, place * chunk, (place + 1) * chunk))


def zigzag_chunk(length: int, context_parallel: int) -> int:
    """Tokens of each of the 2 × CP chunks of a sequence, the last ones padded."""
    return -(-length // (2 * context_parallel))


def padded(spans: Sequence[Span], multiple: int) -> tuple[Span, ...]:
    """The spans and as much padding as makes their tokens a multiple of `multiple`."""
    missing = -held(spans) % multiple
    return (*spans, Span(None, missing)) if missing else tuple(spans)


def contiguous_part(spans: Sequence[Span], parts: int, index: int) -> tuple[Span, ...]:
    """The `index`-th of `parts` equal cuts. Raises ValueError when the tokens cannot be cut equally."""
    total = held(spans)
    if total % parts:
        raise ValueError(f"{total} tokens cannot be cut into {parts} equal parts")
    return cut(spans, total // parts * index, total // parts * (index + 1))


def cut(spans: Sequence[Span], first: int, end: int) -> tuple[Span, ...]:
    """Tokens number `first` to `end` (exclusive) of what the spans hold."""
    found, offset = [], 0
    for span in spans:
        low, high = max(first - offset, 0), min(end - offset, span.length)
        if low < high:
            found.append(span.cut(low, high))
        offset += span.length
    return tuple(found)


def held(spans: Sequence[Span]) -> int:
    """Tokens that the spans hold, padding included."""
    return sum(span.length for span in spans)


def positions(spans: Sequence[Span]) -> list[int]:
    """The position of every token held, PADDING where there is none."""
    return [position for span in spans for position in _positions(span)]


def _positions(span: Span) -> Iterator[int]:
    if span.start is None:
        return iter([PADDING] * span.length)
    return iter(range(span.start, span.start + span.length))


def _within(start: int, length: int, first: int, end: int) -> Iterator[Span]:
    """Tokens `first` to `end` of a sequence of `length` that begins at `start`, its padding as a span of its own."""
    real = min(end, length) - first
    if real > 0:
        yield Span(start + first, real)
    if end - first > max(real, 0):
        yield Span(None, end - first - max(real, 0))
