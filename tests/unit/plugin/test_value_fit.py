"""Explained variance: equal to the formula on the masked tokens, whatever the ranks they lie on."""

from __future__ import annotations

import math
from argparse import Namespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.plugin.value_fit import fit_of, log_value_fit, sums_of


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 3))
def test_the_sums_of_ranks_give_the_fit_of_all_tokens(seed: int, rows: int, ranks: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 30, size=rows * ranks)
    returns = [torch.tensor(random.normal(5, 2, n), dtype=torch.float32) for n in lengths]
    values = [r + torch.tensor(random.normal(0, 1, len(r)), dtype=torch.float32) for r in returns]
    masks = [torch.tensor(random.integers(0, 2, n), dtype=torch.int32) for n in lengths]
    parts = [slice(rank * rows, (rank + 1) * rows) for rank in range(ranks)]
    total = sum(sums_of(values[part], returns[part], masks[part]) for part in parts)
    found = fit_of(total)
    kept_r = np.concatenate([r.numpy()[m.bool().numpy()] for r, m in zip(returns, masks, strict=True)])
    kept_v = np.concatenate([v.numpy()[m.bool().numpy()] for v, m in zip(values, masks, strict=True)])
    if kept_r.size == 0:
        assert found == {}
        return
    assert found["train/value_mean"] == pytest.approx(kept_v.mean(dtype=float), abs=1e-4)
    variance = kept_r.astype(float).var()
    if variance < 1e-12:
        assert "train/explained_variance" not in found
    else:
        wanted = 1 - (kept_r.astype(float) - kept_v).var() / variance
        assert found["train/explained_variance"] == pytest.approx(wanted, abs=1e-4, rel=1e-4)


def test_masked_tokens_do_not_count() -> None:
    returns, mask = [torch.tensor([1.0, 2.0, 1e9])], [torch.tensor([1, 1, 0])]
    assert fit_of(sums_of([torch.tensor([1.0, 2.0, -7.0])], returns, mask))["train/explained_variance"] == 1.0


def test_equal_returns_have_no_fit() -> None:
    found = fit_of(sums_of([torch.tensor([0.0, 1.0])], [torch.tensor([3.0, 3.0])], [torch.tensor([1, 1])]))
    assert "train/explained_variance" not in found and found["train/return_mean"] == 3.0


def test_the_hook_logs_on_slimes_training_axis_and_changes_nothing(namespace, caplog) -> None:
    from slime.utils import logging_utils

    args = Namespace(rollout_batch_size=4, n_samples_per_prompt=2, global_batch_size=4)
    data = {
        "values": [torch.tensor([1.0, 0.0])],
        "returns": [torch.tensor([1.0, 2.0])],
        "loss_masks": [torch.tensor([1, 1])],
    }
    with caplog.at_level("INFO"):
        log_value_fit(args, 3, data)
    assert "step 6: {" in caplog.text
    (row,) = logging_utils.rows
    assert row["train/step"] == 6 and math.isfinite(row["train/explained_variance"])
    log_value_fit(args, 4, {"log_probs": []})
    assert len(logging_utils.rows) == 1, "a stage without values has nothing to say"
