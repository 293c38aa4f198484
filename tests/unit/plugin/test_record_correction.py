"""Importance weights as metrics: what slime's own function reports, and a loss that nobody touched."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from t1cli.plugin import hooks  # noqa: E402
from t1cli.slime.arguments.table import load_table  # noqa: E402

LOG_PROBS = st.lists(st.tuples(st.floats(-20, 0), st.floats(-20, 0)), min_size=1, max_size=20)


def call(rows: list[list[tuple[float, float]]], clip: float, low: float = 0.0):
    """As slime v0.3.0 calls it (`loss.py:policy_loss_function`): keywords alone, one tensor per sample."""
    loss = torch.arange(float(sum(map(len, rows))), requires_grad=True) * 2.0
    masks = [torch.ones(len(row), dtype=torch.int) for row in rows]
    return (
        loss,
        masks,
        hooks.record_correction(
            args=SimpleNamespace(tis_clip=clip, tis_clip_low=low),
            pg_loss=loss,
            train_log_probs=[torch.tensor([t for t, _ in row], requires_grad=True) for row in rows],
            rollout_log_probs=[torch.tensor([r for _, r in row]) for row in rows],
            loss_masks=masks,
            total_lengths=[len(row) + 3 for row in rows],
            response_lengths=[len(row) for row in rows],
        ),
    )


@settings(deadline=None)
@given(st.lists(LOG_PROBS, min_size=1, max_size=5), st.floats(0.5, 5.0))
def test_the_loss_is_what_it_was_and_the_weights_are_exact(rows: list[list[tuple[float, float]]], clip: float) -> None:
    loss, masks, (changed, kept, found) = call(rows, clip)
    assert changed is loss and kept is masks
    weights = [math.exp(t - r) for row in rows for t, r in row]
    assert found["tis"].tolist() == pytest.approx(weights, rel=1e-4)
    assert found["tis_abs"].tolist() == pytest.approx([abs(w - 1) for w in weights], rel=1e-3, abs=1e-4)
    sure = [(w, f) for w, f in zip(weights, found["tis_clipfrac"].tolist(), strict=True) if abs(w - clip) > 1e-3 * clip]
    assert all(fraction == float(weight > clip) for weight, fraction in sure)
    # slime reduces them beside the loss: per token, detached.
    assert all(one.shape == loss.shape and not one.requires_grad for one in found.values())


def test_the_lower_clip_counts_too() -> None:
    _, _, (_, _, found) = call([[(-3.0, 0.0), (0.0, 0.0)]], clip=2.0, low=0.5)
    assert found["tis_clipfrac"].tolist() == [1.0, 0.0]


def test_what_it_reads_is_an_argument_of_slime() -> None:
    table = load_table("0.3.0")
    assert table.by_dest("tis_clip") is not None
    low = table.by_dest("tis_clip_low")
    assert low is not None and low.default == 0
