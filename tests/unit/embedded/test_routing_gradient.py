"""Where a routing row is out of every gradient: at and after the last token that carries loss, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from t1cli.embedded.batches import micro_batches
from t1cli.embedded.losses import token_log_probs
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.terminal.trajectory.draft import no_gradient_at
from t1cli.terminal.trajectory.row import TrainingRow

MakeRows = Callable[..., list[TrainingRow]]
CONFIG = TinyMoEConfig(64, 32, 2, 2, 2, 16, num_experts=4, experts_per_token=2, expert_size=16)


def gradient(model: TinyMoE, row: TrainingRow) -> Tensor:
    """Of the sum of the trained tokens' log-probs, over all weights."""
    (batch,) = micro_batches([row], max_tokens=1024, replay=True)
    logits = model(batch.inputs, routed_experts=batch.routing).logits
    loss = (token_log_probs(logits, batch.targets, 1.0) * batch.loss_mask).sum()
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def with_other_experts(row: TrainingRow, position: int) -> TrainingRow:
    assert row.routed_experts is not None
    routed = row.routed_experts.copy()
    routed[position] = (routed[position] + 1) % CONFIG.num_experts
    return replace(row, routed_experts=routed)


@pytest.mark.catalogue("F5")
def test_a_substitute_row_changes_a_gradient_exactly_where_the_rule_says(synthetic_rows: MakeRows) -> None:
    """A masked token in the middle is not free: its keys and values are read where there is loss."""
    model = TinyMoE(CONFIG, seed=2)
    row = synthetic_rows(1, seed=5)[0]
    mask = row.loss_mask.copy()
    mask[-6:] = 0  # the trial ends with an observation
    row = replace(row, loss_mask=mask, log_probs=row.log_probs * mask)
    trained = np.flatnonzero(mask)
    middle = [int(place) for place in np.flatnonzero(mask[: trained[-1]] == 0)]
    assert any(place > trained[0] for place in middle), "an observation between two replies"
    base = gradient(model, row)
    for position in range(len(row.tokens) - 1):
        other = gradient(model, with_other_experts(row, position))
        free = no_gradient_at(position, int(trained[-1]))
        change = float((other - base).abs().max() / base.abs().max())
        # The products of other tokens are computed in other groups then, which may move their last bits.
        assert change < 1e-5 if free else change > 1e-4, (position, free, change)
