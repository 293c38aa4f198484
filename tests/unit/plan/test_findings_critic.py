"""C1, C2, C3, C4, C8, C9, C10, M10 and staleness."""

from __future__ import annotations

import pytest

T1, BINARY, GRPO = "t1-strategy15k", "t1-binary-tmax", "qwen3-8b-grpo"
COLD = ("model.checkpoints.warm_critic=null", "algorithm.critic.warm_from_reward=null")


@pytest.mark.catalogue("C1")
def test_C1_cold_critic_with_few_critic_only_steps(findings_of):
    (found,) = findings_of("C1", T1, *COLD, "algorithm.critic.critic_only_steps=2")
    assert found.severity == "warning" and "-33.6" in found.message and "after 2 critic-only steps" in found.message
    assert findings_of("C1", T1, *COLD, "algorithm.critic.critic_only_steps=10") == []


@pytest.mark.catalogue("C1")
def test_C1_warm_critic_of_another_reward(findings_of):
    warm = ("model.checkpoints.warm_critic=/w", "algorithm.critic.warm_from_reward=binary")
    (noted,) = findings_of("C1", T1, *warm, "algorithm.critic.critic_only_steps=2")
    assert noted.severity == "notice" and "learned binary" in noted.message and "4/20 = 0.2" in noted.message
    (asked,) = findings_of("C1", T1, *warm, "algorithm.critic.critic_only_steps=0")
    assert asked.severity == "warning" and "off scale" in asked.message
    same = ("model.checkpoints.warm_critic=/w", "algorithm.critic.warm_from_reward=ctrf_count")
    assert findings_of("C1", T1, *same, "algorithm.critic.critic_only_steps=2") == []


@pytest.mark.catalogue("C2")
def test_C2_directories_that_are_the_same_after_all(findings_of):
    (found,) = findings_of("C2", T1, "checkpoint.actor_dir=/ckpt/run", "checkpoint.critic_dir=/ckpt/x/../run")
    assert found.severity == "error" and "/ckpt/run" in found.message
    assert findings_of("C2", T1, "checkpoint.actor_dir=/ckpt/a", "checkpoint.critic_dir=/ckpt/c") == []


@pytest.mark.catalogue("C2")
@pytest.mark.parametrize(("actor", "critic"), [("/x", "/x/critic"), ("/x/y/actor", "/x/y"), ("x/a", "x/b/../a/c")])
def test_C2_a_directory_inside_the_others(findings_of, actor, critic):
    (found,) = findings_of("C2", T1, f"checkpoint.actor_dir={actor}", f"checkpoint.critic_dir={critic}")
    assert found.severity == "error" and "one inside the other" in found.message, "as launch refuses it"


@pytest.mark.catalogue("C3")
def test_C3_keep_latest_alone(findings_of):
    latest = ("checkpoint.retention.keep_best=0", "checkpoint.retention.keep_latest=2", "checkpoint.every_rollouts=8")
    (found,) = findings_of("C3", GRPO, *latest)
    assert found.severity == "warning" and "16 rollouts of 2000" in found.message and "127 to 183" in found.message


@pytest.mark.catalogue("C3")
def test_C3_best_without_anything_to_rank_by(findings_of):
    (found,) = findings_of("C3", "quickstart", "checkpoint.retention.metric=null")
    assert "no metric to rank" in found.message
    assert findings_of("C3", "quickstart", "checkpoint.retention.metric=terminal/reward_mean") == []


@pytest.mark.catalogue("C4")
def test_C4_default_timeouts(findings_of):
    timeouts = ("trainer.gloo_timeout_minutes=30", "trainer.nccl_timeout_minutes=30", "topology.cp=4")
    gloo, nccl, unpatched = findings_of("C4", T1, *timeouts)
    assert gloo.severity == nccl.severity == "warning"
    assert "waits 30 min" in gloo.message and "with CP 4" in nccl.message and "489 s" in nccl.message
    assert unpatched.severity == "notice" and "weight-push group" in unpatched.message
    assert findings_of("C4", "quickstart") == []


@pytest.mark.catalogue("C4")
def test_C4_a_save_above_twenty_minutes(findings_of):
    found = [f for f in findings_of("C4", T1, "checkpoint.what=full") if f.severity == "warning"]
    # 122.1e9 × 14 B × 2 roles = 3,184 GiB, at 1 GiB/s 53 min.
    assert "3,184 GiB: 53 min" in found[0].message
    assert [f.severity for f in findings_of("C4", T1)] == ["notice"]


@pytest.mark.catalogue("C8")
def test_C8_restart_cost(findings_of):
    (found,) = findings_of("C8", T1, "rollout.num_rollouts=112", "checkpoint.every_rollouts=10")
    # 128 GPUs × 3,600 s = 128 GPU-hours a step; 10 steps 1,280; 112 steps 14,336.
    assert "128.0 GPU-hours a step" in found.message
    assert "1,280 GPU-hours" in found.message and "14,336" in found.message
    assert findings_of("C8", T1, "checkpoint.what=full") == []


@pytest.mark.catalogue("C9")
def test_C9_old_policy(findings_of):
    (refused,) = findings_of("C9", T1, "algorithm.keep_old_actor=false")
    assert refused.severity == "error"
    (compiled,) = findings_of("C9", T1)
    assert compiled.severity == "notice" and "update interval 1" in compiled.message
    assert findings_of("C9", "quickstart", "algorithm.keep_old_actor=false") == []


@pytest.mark.catalogue("C10")
def test_C10_interval_repeats_and_budgets(findings_of):
    repeats = ("evaluation.num_tasks=89", "evaluation.repeats=3")
    spread = [f for f in findings_of("C10", T1, *repeats) if "±" in f.message]
    # 1.96 × sqrt(0.6 × 0.4 / 267) = 0.0588
    assert spread[0].severity == "notice" and "267 trials" in spread[0].message and "±0.059" in spread[0].message
    few = [f for f in findings_of("C10", T1, "evaluation.repeats=1") if "±" in f.message]
    assert few[0].severity == "warning"
    unequal = [f for f in findings_of("C10", T1) if "unequal" in f.message]
    assert "57,344 against 122,880" in unequal[0].message and "8,192 against 32,768" in unequal[0].message
    (none,) = findings_of("C10", "quickstart")
    assert "no evaluation" in none.message


@pytest.mark.catalogue("M10")
def test_M10_checkpoints_fill_the_disk(findings_of, plan_of):
    full = ("checkpoint.what=full", "checkpoint.retention.keep_latest=12", "checkpoint.retention.keep_best=0")
    (found,) = findings_of("M10", T1, *full, "hardware.disk_gib=20000", "checkpoint.every_rollouts=5")
    assert found.severity == "error" and "3,184.3 GiB" in found.message and "20,000 GiB" in found.message
    kept = found.fix.split("keep_latest=")[1].split(",")[0]
    fitting = (*full, "hardware.disk_gib=20000", "checkpoint.every_rollouts=5")
    assert findings_of("M10", T1, *fitting, f"checkpoint.retention.keep_latest={kept}") == []


def test_weights_only_saves_of_two_122B_roles(plan_of):
    disk = plan_of(T1, "checkpoint.what=weights").disk
    assert round(disk.per_save_gib, 1) == 454.9  # 122,111,526,912 × 2 B × 2 roles
    assert disk.total_gib == disk.per_save_gib * (disk.saves_kept + 1)


def test_staleness_of_eight(findings_of):
    stale = ("rollout.pipeline=fully_async", "rollout.max_staleness=8")
    (refused,) = findings_of("T-staleness", T1, *stale)
    assert refused.severity == "error" and "8 weight versions" in refused.message
    (allowed,) = findings_of("T-staleness", T1, *stale, "rollout.allow_staleness=true")
    assert allowed.severity == "warning"


def test_staleness_above_one_is_a_warning(findings_of):
    (found,) = findings_of("T-staleness", T1, "rollout.pipeline=fully_async", "rollout.max_staleness=2")
    assert found.severity == "warning" and "2 weight versions" in found.message
    assert findings_of("T-staleness", T1, "rollout.pipeline=fully_async", "rollout.max_staleness=1") == []


@pytest.mark.catalogue("C9")
def test_C9_turns_of_earlier_weights_on_slime(findings_of):
    goes_on = ("rollout.unfinished=continue", "rollout.max_staleness=2")
    mixed = [one for one in findings_of("C9", T1, *goes_on) if "trials go on" in one.message]
    assert [one.severity for one in mixed] == ["warning"] and "up to 1 updates newer" in mixed[0].message
    (stale,) = findings_of("T-staleness", T1, *goes_on)
    for found in (*mixed, stale):
        assert found.fix.startswith("--set rollout.unfinished=repeat --set rollout.max_staleness=1")
    assert findings_of("C9", T1, "rollout.unfinished=repeat") == findings_of("C9", T1), "nothing more to say"
    assert findings_of("C9", "quickstart", "rollout.unfinished=continue", "rollout.max_staleness=1") == []
    assert findings_of("T-staleness", T1) == []


def test_a_pipeline_on_shared_gpus_is_refused(findings_of):
    shared = ("topology.colocated=true", "topology.rollout_gpus=64")
    (found,) = findings_of("T-pipeline", T1, *shared)
    assert found.severity == "error" and "train_async.py" in found.message


def test_a_step_needs_a_sample_for_every_rank(findings_of):
    batch = ("rollout.batch_size=2", "rollout.over_sampling_batch_size=2")
    (found,) = findings_of("T-batch", T1, *batch, "topology.cp=1")
    assert "2 samples is smaller than the data-parallel size 16" in found.message


def test_a_filter_without_a_surplus_is_said_to_drop_nothing(findings_of) -> None:
    filtered = ("rollout.dynamic_filter=own.filters.rewards_differ", "rollout.batch_size=512")
    (found,) = findings_of("T-filter", T1, *filtered, "rollout.over_sampling_batch_size=null")
    assert found.severity == "warning" and "taken back" in found.message
    assert found.fix == "--set rollout.over_sampling_batch_size=640"
    assert findings_of("T-filter", T1, *filtered, "rollout.over_sampling_batch_size=640") == []
    assert findings_of("T-filter", T1, "rollout.over_sampling_batch_size=null") == []
    slimes = (*filtered, "rollout.over_sampling_batch_size=null", "engine.rollout_loop=slime")
    assert findings_of("T-filter", T1, *slimes) == [], "slime draws more"
