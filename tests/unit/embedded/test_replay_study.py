"""What replay removes, on the same tokens: all of a flip, nothing of the arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from t1cli.embedded.batches import micro_batches
from t1cli.embedded.decoder import DecoderSettings
from t1cli.embedded.forced_decoding import forced_rows
from t1cli.embedded.model import TinyMoE
from t1cli.embedded.replay_findings import findings
from t1cli.embedded.replay_study import Study, study
from t1cli.embedded.routing_study import free_routing_metrics
from t1cli.terminal.trajectory.row import TrainingRow
from tests.unit.embedded.conftest import tiny_config

MakeRows = Callable[..., list[TrainingRow]]
CONFIG = tiny_config(64)


@pytest.fixture
def model() -> TinyMoE:
    network = TinyMoE(CONFIG, seed=1)
    with torch.no_grad():  # an untrained router of this size decides too clearly to be flipped by rounding
        for layer in network.layers:
            layer.moe.router.weight *= 0.1
    return network


def test_a_forced_row_is_what_the_trainer_computes(model: TinyMoE, synthetic_rows: MakeRows) -> None:
    """fp32 through the sampler's own forward pass: same ids, same mask, the trainer's log-probs and experts."""
    rows = synthetic_rows(20, seed=1)
    forced = forced_rows(rows, CONFIG, model.state_dict(), DecoderSettings(dtype=torch.float32), temperature=0.7)
    for row, other in zip(rows, forced, strict=True):
        assert (other.tokens == row.tokens).all() and (other.loss_mask == row.loss_mask).all()
        with torch.no_grad():
            output = model(torch.from_numpy(row.tokens[None, :-1].astype(np.int64)))
        assert (other.routed_experts == output.routed_experts[0].numpy()).all()
        scores = torch.log_softmax(output.logits[0] / 0.7, -1).numpy()
        wanted = scores[np.arange(len(row.tokens) - 1), row.tokens[1:]] * row.loss_mask[1:]
        np.testing.assert_allclose(other.log_probs[1:], wanted, atol=2e-5)


def test_replay_removes_what_flips_did_and_leaves_kernel_noise(model: TinyMoE, synthetic_rows: MakeRows) -> None:
    found = study(model, model.state_dict(), synthetic_rows(30, seed=2), temperature=1.0, noise=0.1)
    assert found.fp32.flipped_rows == 0.0 and found.fp32.gap_with_replay < 1e-5
    assert found.perturbed.flipped_rows > 0.1 and found.perturbed.gap_without_replay > 1e-3
    assert found.perturbed.gap_with_replay < 1e-5 and found.perturbed.kl_with_replay < 1e-9
    assert found.perturbed.reduction > 0.99 and found.perturbed.reduction_low > 0.99
    assert found.perturbed.routing_gap == pytest.approx(found.perturbed.gap_without_replay, rel=0.01)
    assert found.fp32.gap_with_replay < found.bf16_routers.gap_with_replay < found.perturbed.gap_without_replay


def test_replay_leaves_the_arithmetic_of_another_number_format(model: TinyMoE, synthetic_rows: MakeRows) -> None:
    settings = DecoderSettings(dtype=torch.bfloat16)
    rows = forced_rows(synthetic_rows(30, seed=3), CONFIG, model.state_dict(), settings, temperature=1.0)
    found = findings(model, rows, temperature=1.0)
    assert found.flipped_rows > 0 and found.gap_with_replay > 1e-4


def test_the_figures_are_those_of_a_training_step(model: TinyMoE, synthetic_rows: MakeRows) -> None:
    """Row by row or micro-batch by micro-batch: one reduction over all trained tokens."""
    rows = synthetic_rows(9, seed=4)
    found = findings(model, rows, temperature=1.0)
    for limit in (1, 64, 10_000):
        metrics = free_routing_metrics(model, micro_batches(rows, max_tokens=limit, replay=True), 1.0)
        assert found.flipped_rows == metrics["train/routing_flipped_rows"]
        gap = metrics["train/train_rollout_logprob_abs_diff_free_routing"]
        assert found.gap_without_replay == pytest.approx(gap, rel=1e-6)


def test_a_study_that_does_not_show_it_does_not_hold(model: TinyMoE, synthetic_rows: MakeRows) -> None:
    rows = synthetic_rows(12, seed=5)
    good = study(model, model.state_dict(), rows, temperature=1.0, noise=0.1)
    strict = replace(good.bf16, drifted_in_loss=0, flipped_rows=0.02)
    shown = Study(strict, replace(good.bf16_routers, reduction=0.5), good.perturbed, good.fp32)
    assert shown.holds
    assert not replace(shown, bf16=replace(strict, flipped_rows=0.001)).holds
    assert not replace(shown, bf16=replace(strict, drifted_in_loss=1)).holds
    assert not replace(shown, bf16_routers=replace(good.bf16_routers, reduction=0.1)).holds
    assert not replace(shown, perturbed=replace(good.perturbed, gap_with_replay=1e-3)).holds
