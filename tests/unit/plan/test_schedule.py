"""Steps, epochs, routing bytes and step time as slime counts them."""

from __future__ import annotations

import pytest

T1, GRPO = "t1-strategy15k", "qwen3-8b-grpo"


def test_the_reports_campaign(plan_of):
    schedule = plan_of(T1, "rollout.num_rollouts=112").schedule
    assert schedule.optimizer_steps == 112
    assert schedule.epochs_seen == pytest.approx(112 * 512 / 15_000)
    assert schedule.epochs_drawn == pytest.approx(112 * 560 / 15_000)
    # Counted by epochs slime floors: 15,000 // 512 = 29, and 15,000 - 29 × 512 = 152 tasks are never drawn.
    assert schedule.tasks_skipped_per_epoch == 152
    assert schedule.routing_bytes_per_token == 48 * 8 * 4 == 1536
    assert schedule.routing_bytes_per_step == 1536 * 512 * 86_016
    assert schedule.gpu_hours == pytest.approx(112 * 128)


def test_a_dense_model_or_no_replay_has_no_routing_rows(plan_of):
    assert plan_of(GRPO, "rollout.routing_replay=true").schedule.routing_bytes_per_token == 0
    assert plan_of(T1, "rollout.routing_replay=false").schedule.routing_bytes_per_step == 0


def test_first_dense_layers_have_no_router(plan_of):
    one_dense = ("model.architecture.first_k_dense=1", "model.architecture.intermediate_size=4096")
    assert plan_of(T1, *one_dense).schedule.routing_bytes_per_token == 47 * 8 * 4


@pytest.mark.parametrize(("steps", "expected"), [(1, 2000), (2, 4000), (4, 8000)])
def test_steps_of_a_cut_batch(plan_of, steps, expected):
    plan = plan_of(GRPO, "rollout.num_rollouts=2000", f"algorithm.steps_per_rollout={steps}")
    assert plan.schedule.optimizer_steps == expected
    assert plan.schedule.samples_per_step == 128 // steps


TIMES = ("rollout.expected_seconds=3000", "rollout.expected_train_seconds=600")


@pytest.mark.parametrize(
    ("settings", "seconds", "side"),
    [
        ((*TIMES, "rollout.pipeline=one_step"), 3000, "rollout"),
        ((*TIMES, "rollout.pipeline=sync", "rollout.max_staleness=0"), 3600, "rollout"),
        (("rollout.expected_seconds=300", "rollout.expected_train_seconds=600"), 600, "training"),
        (("rollout.expected_seconds=null", "rollout.expected_train_seconds=600"), 600, "unknown"),
        (("rollout.expected_seconds=null", "rollout.expected_train_seconds=null"), None, "unknown"),
    ],
)
def test_step_time_by_pipeline(plan_of, settings, seconds, side):
    schedule = plan_of(T1, *settings).schedule
    assert schedule.step_seconds == seconds
    assert schedule.binding_side == side


def test_money_follows_the_price(plan_of):
    schedule = plan_of(T1, "hardware.price_per_gpu_hour=2.5", "rollout.num_rollouts=112").schedule
    assert schedule.cost == pytest.approx(112 * 128 * 2.5)
    assert schedule.gpu_hours_per_day == 128 * 24
    assert plan_of(T1).schedule.cost is None
