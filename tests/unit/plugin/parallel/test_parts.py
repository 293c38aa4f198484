"""Every token on exactly one rank, borders on the chunk grid, neighbours where a sequence goes on."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.plugin.parallel.order import Layout, Rank, local_spans, positions
from t1cli.plugin.parallel.parts import Part, cut_stream, exchange

LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(LENGTHS, st.integers(1, 8), st.integers(1, 70))
def test_parts_tile_the_stream_on_the_chunk_grid(lengths: list[int], ranks: int, chunk: int) -> None:
    parts = cut_stream(lengths, ranks, chunk)
    starts = [sum(lengths[:index]) for index in range(len(lengths) + 1)]
    assert [parts[0].start, *(part.end for part in parts)] == [part.start for part in parts] + [starts[-1]]
    for part in parts:
        sequence = max(start for start in starts if start <= part.start)
        assert part.start == part.end or (part.start - sequence) % chunk == 0
        assert part.bounds[0] == 0 and part.bounds[-1] == part.num_tokens
        assert all(end > start for start, end in pairwise(part.bounds))
        assert {part.start + bound for bound in part.bounds} == {part.start, part.end} | {
            start for start in starts if part.start < start < part.end
        }


@settings(max_examples=200, deadline=None)
@given(LENGTHS, st.integers(1, 8), st.integers(1, 70))
def test_parts_hold_equally_many_chunks(lengths: list[int], ranks: int, chunk: int) -> None:
    held = [
        sum(-(-(end - start) // chunk) for start, end in pairwise(part.bounds))
        for part in cut_stream(lengths, ranks, chunk)
    ]
    assert max(held) - min(held) <= 1 and sum(held) == sum(-(-length // chunk) for length in lengths)


@settings(max_examples=200, deadline=None)
@given(LENGTHS, st.integers(1, 8))
def test_neighbours_are_the_ranks_across_a_border_inside_a_sequence(lengths: list[int], ranks: int) -> None:
    parts = cut_stream(lengths, ranks)
    starts = {sum(lengths[:index]) for index in range(len(lengths) + 1)}
    for rank, part in enumerate(parts):
        if part.num_tokens == 0:
            assert part.previous is None and part.following is None
            continue
        before = [other for other in range(rank) if parts[other].num_tokens]
        assert part.previous == (None if part.start in starts else before[-1])
        if part.previous is not None:
            assert parts[part.previous].following == rank
        assert (part.following is None) == (part.end in starts)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_the_way_to_parts_and_back_loses_no_token(ranks: int, units: list[int]) -> None:
    lengths = [2 * ranks * unit for unit in units]
    parts = cut_stream(lengths, ranks)
    ways = [exchange(lengths, parts, rank) for rank in range(ranks)]
    shards = [positions(local_spans(lengths, Layout(ranks, pad_multiple=1), Rank(rank))) for rank in range(ranks)]
    sent = [torch.tensor(shard)[way.send_from].split(way.send_counts) for shard, way in zip(shards, ways, strict=True)]
    for rank, (part, way) in enumerate(zip(parts, ways, strict=True)):
        arrived = torch.cat([pieces[rank] for pieces in sent])
        assert way.receive_counts == tuple(len(pieces[rank]) for pieces in sent)
        placed = torch.full((part.num_tokens,), -1).index_copy_(0, way.put_at, arrived)
        assert placed.tolist() == list(range(part.start, part.end))


def test_a_length_without_equal_shards_is_refused() -> None:
    with pytest.raises(ValueError, match="a sequence of 10 tokens has no equal zig-zag shards on 2 ranks"):
        exchange([8, 10], cut_stream([8, 10], 2), 0)


def test_whole_sequences_stay_on_a_rank() -> None:
    assert cut_stream([128, 128], 2) == (
        Part(0, 128, (0, 128), None, None),
        Part(128, 256, (0, 128), None, None),
    )
    assert cut_stream([192, 64], 2)[0] == Part(0, 128, (0, 128), None, 1)
    assert cut_stream([192, 64], 2)[1] == Part(128, 256, (0, 64, 128), 0, None)
