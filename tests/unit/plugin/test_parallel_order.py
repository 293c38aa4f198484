"""The order of a micro-batch on a rank: every token exactly once, tokens and rows alike."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.plugin.parallel.order import (
    PADDING,
    Layout,
    Rank,
    contiguous_part,
    held,
    local_spans,
    positions,
    zigzag_chunk,
    zigzag_shard,
)
from t1cli.plugin.parallel.shard import take

layouts = st.builds(
    Layout,
    context_parallel=st.sampled_from([1, 2, 3, 4]),
    tensor_parallel=st.sampled_from([1, 2, 4]),
    sequence_parallel=st.booleans(),
    pad_multiple=st.sampled_from([1, 4, 128]),
)
sequence_lengths = st.lists(st.integers(0, 40), min_size=1, max_size=5)


def ranks(layout: Layout) -> list[Rank]:
    return [Rank(c, t) for c in range(layout.context_parallel) for t in range(layout.tensor_parallel)]


def by_lists(lengths: list[int], layout: Layout, rank: Rank) -> list[int]:
    """The same order from list slices, one step after the other, as slime's get_batch composes them."""
    cp, tp = layout.context_parallel, layout.tensor_parallel
    stream: list[int] = []
    first = 0
    for length in lengths:
        sequence = list(range(first, first + length))
        first += length
        if cp > 1:
            chunk = (length + 2 * cp - 1) // (2 * cp)
            sequence += [PADDING] * (2 * cp * chunk - length)
            back = 2 * cp - 1 - rank.context
            head, tail = sequence[chunk * rank.context :][:chunk], sequence[chunk * back :][:chunk]
            sequence = head + tail
        stream += sequence
    while len(stream) % (tp * layout.pad_multiple):
        stream.append(PADDING)
    part = len(stream) // tp
    return stream[part * rank.tensor : part * (rank.tensor + 1)] if layout.sequence_parallel else stream


@settings(deadline=None)
@given(sequence_lengths, layouts)
def test_order_is_that_of_the_steps_one_by_one(lengths: list[int], layout: Layout) -> None:
    for rank in ranks(layout):
        assert positions(local_spans(lengths, layout, rank)) == by_lists(lengths, layout, rank)


@settings(deadline=None)
@given(sequence_lengths, layouts)
def test_every_token_is_held_exactly_once(lengths: list[int], layout: Layout) -> None:
    holders = ranks(layout) if layout.sequence_parallel else [r for r in ranks(layout) if r.tensor == 0]
    spans = [local_spans(lengths, layout, rank) for rank in holders]
    together = [position for part in spans for position in positions(part) if position != PADDING]
    assert sorted(together) == list(range(sum(lengths)))
    assert len({held(part) for part in spans}) == 1


def equal_part(start: int, length: int, size: int, rank: int) -> list[int]:
    """The rank-th of equal parts of one sequence: the layout that a recurrent scan needs, padding last."""
    part = 2 * zigzag_chunk(length, size)
    places = range(rank * part, (rank + 1) * part)
    return [start + place if place < length else PADDING for place in places]


@settings(deadline=None)
@given(st.integers(0, 100), st.integers(0, 100), st.integers(2, 5))
def test_zigzag_and_contiguous_shards_hold_the_same(start: int, length: int, size: int) -> None:
    zigzag = [position for rank in range(size) for position in positions(zigzag_shard(start, length, size, rank))]
    plain = [position for rank in range(size) for position in equal_part(start, length, size, rank)]
    assert sorted(zigzag) == sorted(plain)
    assert [position for position in plain if position != PADDING] == list(range(start, start + length))


@pytest.mark.catalogue("F3")
@settings(deadline=None)
@given(sequence_lengths, layouts, st.integers(1, 3))
def test_tokens_and_rows_take_the_same_order(lengths: list[int], layout: Layout, experts: int) -> None:
    tokens = torch.arange(sum(lengths))
    rows = tokens[:, None, None].expand(-1, 2, experts) * 10
    for rank in ranks(layout):
        spans = local_spans(lengths, layout, rank)
        local_tokens = take(tokens, spans, torch.tensor([PADDING]))
        local_rows = take(rows, spans, torch.full((1, 2, experts), PADDING * 10))
        assert torch.equal(local_rows, (local_tokens * 10)[:, None, None].expand(-1, 2, experts))


def test_padding_rows_are_used_in_turn() -> None:
    spans = local_spans([3], Layout(pad_multiple=8), Rank())
    assert take(torch.tensor([7, 8, 9]), spans, torch.tensor([-1, -2])).tolist() == [7, 8, 9, -1, -2, -1, -2, -1]


def test_another_composition_is_another_order() -> None:
    """The shapes agree when the stream is cut before instead of after it is joined; the positions do not."""
    layout = Layout(context_parallel=2, pad_multiple=1)
    joined_first = zigzag_shard(0, 16, 2, 0)
    assert held(joined_first) == held(local_spans([8, 8], layout, Rank()))
    assert positions(joined_first) != positions(local_spans([8, 8], layout, Rank()))


def test_unequal_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="7 tokens cannot be cut into 2"):
        contiguous_part(zigzag_shard(0, 7, 1, 0), 2, 0)
