"""Rows of one rank: where its tokens are, and never guessed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.plugin.parallel.order import PADDING, Layout, Rank, local_spans, positions
from t1cli.plugin.routing.rows import check_rows, local_rows, spread_experts
from t1cli.terminal.trajectory.routing import RoutingShape, WrongRouting

SHAPE = RoutingShape(layers=3, top_k=2, experts=8)


def rows_of(length: int, seed: int) -> torch.Tensor:
    """(length - 1, L, K) of different experts."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(length - 1, SHAPE.layers, SHAPE.experts, generator=generator)
    return scores.topk(SHAPE.top_k, dim=-1).indices.to(torch.uint8)


@pytest.mark.catalogue("F3")
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_every_rank_replays_the_rows_of_its_own_tokens(lengths: list[int], cp: int, tp: int, sequence: bool) -> None:
    layout = Layout(cp, tp, sequence, pad_multiple=4)
    rows = [rows_of(length, seed) for seed, length in enumerate(lengths)]
    owners = [(i, j) for i, length in enumerate(lengths) for j in range(length)]
    for rank in (Rank(c, t) for c in range(cp) for t in range(tp)):
        found = local_rows(rows, lengths, SHAPE, layout, rank)
        held = positions(local_spans(lengths, layout, rank))
        assert found.dtype == torch.int64 and len(found) == len(held)
        for row, position in zip(found, held, strict=True):
            sequence_index, place = owners[position] if position != PADDING else (0, lengths[0] - 1)
            if place < lengths[sequence_index] - 1:
                assert torch.equal(row, rows[sequence_index][place].long())
            else:  # the last token and padding: any set of different experts
                assert all(len(set(layer)) == SHAPE.top_k for layer in row.tolist())


def test_padding_is_spread_over_the_experts() -> None:
    counts = torch.bincount(spread_experts(SHAPE).flatten(), minlength=SHAPE.experts)
    assert counts.min() == counts.max() > 0


@pytest.mark.catalogue("F3")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], r"shape \(8, 3, 2\) for 10 tokens, expected \(9, 3, 2\)"),
        (lambda rows: rows[:, :2], r"expected \(9, 3, 2\)"),
        (lambda rows: rows.index_fill(0, torch.tensor([4]), 8), "outside 0..7"),
        (lambda rows: rows.long().index_fill(0, torch.tensor([4]), -1), "indices -1"),
        (lambda rows: rows.index_fill(0, torch.tensor([4]), 5), r"position 4, layer 0 names an expert twice: \[5, 5\]"),
    ],
)
@pytest.mark.catalogue("F3")
def test_rows_that_cannot_belong_to_the_tokens_are_refused(change, message) -> None:
    with pytest.raises(WrongRouting, match=message):
        check_rows(change(rows_of(10, 0)), 10, SHAPE, name="sequence 0")


def test_one_sequence_too_few() -> None:
    with pytest.raises(WrongRouting, match="routing of 1 sequences for 2"):
        local_rows([rows_of(5, 0)], [5, 5], SHAPE, Layout(), Rank())
