"""Rows become padded tensors without moving a token, and slime's loss weights survive any cut into micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from t1cli.embedded.batches import micro_batches
from t1cli.terminal.trajectory.row import TrainingRow

MakeRows = Callable[..., list[TrainingRow]]


@pytest.mark.catalogue("F3")
def test_every_position_lines_up_with_its_row(synthetic_rows: MakeRows) -> None:
    rows = synthetic_rows(9, seed=1)
    for batch in micro_batches(rows, max_tokens=100, replay=True):
        assert batch.routing is not None
        for place, index in enumerate(batch.row_indices):
            row, last = rows[index], len(rows[index].tokens) - 1
            assert batch.inputs[place, :last].tolist() == row.tokens[:-1].tolist()
            assert batch.targets[place, :last].tolist() == row.tokens[1:].tolist()
            assert batch.loss_mask[place, :last].tolist() == row.loss_mask[1:].tolist()
            assert int(batch.response[place].sum()) == len(row.tokens) - row.response_start
            assert row.routed_experts is not None
            assert np.array_equal(batch.routing[place, :last].numpy(), row.routed_experts)
            assert not batch.response[place, last:].any() and not batch.weight[place, last:].any()


def test_micro_batches_are_bounded_complete_and_repeatable(synthetic_rows: MakeRows) -> None:
    rows = synthetic_rows(20, seed=2)
    batches = micro_batches(rows, max_tokens=120, replay=True)
    assert sorted(index for batch in batches for index in batch.row_indices) == list(range(20))
    assert len(batches) > 1 and all(batch.padded_tokens <= 120 for batch in batches)
    again = micro_batches(rows, max_tokens=120, replay=True)
    assert [batch.row_indices for batch in again] == [batch.row_indices for batch in batches]
    assert len(micro_batches(rows, max_tokens=1, replay=True)) == 20, "a row above the limit stands alone"


def test_a_trial_of_two_rows_weighs_as_much_as_a_trial_of_one(synthetic_rows: MakeRows) -> None:
    rows = synthetic_rows(3, seed=3)
    rows[1] = replace(rows[1], trial_id=rows[0].trial_id)
    weight: dict[str, float] = {}
    for batch in micro_batches(rows, max_tokens=60, replay=False):
        for place, index in enumerate(batch.row_indices):
            trial = rows[index].trial_id
            weight[trial] = weight.get(trial, 0.0) + float(batch.weight[place].sum())
    assert list(weight.values()) == pytest.approx([0.5, 0.5])


@pytest.mark.catalogue("F3", "F4")
def test_a_missing_or_short_routing_capture_is_an_error(synthetic_rows: MakeRows) -> None:
    rows = synthetic_rows(2, seed=4)
    with pytest.raises(ValueError, match="no routing rows"):
        micro_batches([replace(rows[0], routed_experts=None)], max_tokens=100, replay=True)
    assert rows[0].routed_experts is not None
    with pytest.raises(ValueError, match="one less than tokens"):
        micro_batches([replace(rows[0], routed_experts=rows[0].routed_experts[1:])], max_tokens=100, replay=True)


def test_a_fully_masked_row_carries_no_weight_but_counts_as_a_trial(synthetic_rows: MakeRows) -> None:
    rows = synthetic_rows(2, seed=5)
    rows[0] = replace(rows[0], loss_mask=np.zeros_like(rows[0].loss_mask))
    total = sum(float(batch.weight.sum()) for batch in micro_batches(rows, max_tokens=500, replay=False))
    assert total == pytest.approx(0.5) and torch.isfinite(torch.tensor(total))
