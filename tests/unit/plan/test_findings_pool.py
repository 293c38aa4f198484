"""S1, S5, S6: the postmortem's pool, its four remedies under both limits, and what sandboxes cost."""

from __future__ import annotations

import pytest

STARVED, HEALTHY, T1 = "qwen3-8b-grpo-starved", "qwen3-8b-grpo", "t1-strategy15k"


@pytest.mark.catalogue("S1")
def test_S1_the_postmortems_pool(findings_of, plan_of):
    pool = plan_of(STARVED).pool
    assert (pool.demand, pool.capacity, pool.ratio, pool.granted) == (128, 32, 4.0, 32)
    (found,) = findings_of("S1", STARVED)
    assert found.severity == "error"
    assert "1 server × 8 tasks × 4 runs = 32 leases" in found.message
    assert "16 prompts × 8 samples = 128 (4.0×)" in found.message
    assert "per task 4 < 8 samples, so 4 of 8" in found.message and "96 are answered 429" in found.message


@pytest.mark.catalogue("S1")
def test_S1_remedies_are_judged_under_both_limits(findings_of):
    (found,) = findings_of("S1", STARVED)
    lines = {line.split(":")[0]: line for line in found.fix.splitlines()}
    assert "16 tasks × 8 runs: holds all 128; 32 GiB RAM, 205 GiB disk" in lines["A"]
    assert "4 servers of 8 × 4" in lines["B"] and "still refuses 4 of 8 runs per task (64 held)" in lines["B"]
    assert "4 servers of 8 × 8" in lines["B'"] and "chance 97%" in lines["B'"]
    assert "holds all 128" in lines["C"]
    assert "batch 4 × 8" in lines["D"] and "still refuses 4 of 8 runs per task (16 held)" in lines["D"]
    assert "batch 8 × 4 samples: holds all 32" in lines["D'"]


@pytest.mark.catalogue("S1")
def test_S1_every_pasteable_remedy_removes_the_finding(findings_of):
    (found,) = findings_of("S1", STARVED)
    commands = [line.split("(--set ", 1)[1].rstrip(")") for line in found.fix.splitlines() if "(--set " in line]
    assert len(commands) == 2
    for command in commands:
        assert findings_of("S1", STARVED, *command.split(" --set ")) == []


@pytest.mark.catalogue("S1")
def test_S1_a_queue_makes_it_a_warning(findings_of):
    (found,) = findings_of("S1", STARVED, "sandbox.queueing=true")
    assert found.severity == "warning" and "96 queue" in found.message


@pytest.mark.catalogue("S1")
def test_S1_uneven_hashing_is_said(findings_of):
    urls = "sandbox.urls=[http://a:1,http://b:1]"
    (found,) = findings_of("S1", HEALTHY, urls, "sandbox.max_tasks=8", "sandbox.max_runs_per_task=8")
    # C(16, 8) / 2^16 = 12,870 / 65,536 = 19.6%
    assert found.severity == "warning" and "20% of rollouts" in found.message


@pytest.mark.catalogue("S1")
def test_S1_an_account_refuses_and_local_sandboxes_wait(findings_of):
    (refused,) = findings_of("S1", T1, "sandbox.capacity=280")
    assert refused.severity == "error" and "wants 560 sandboxes, 280 exist at once (2.0×)" in refused.message
    (waits,) = findings_of("S1", "quickstart", "rollout.batch_size=16", "sandbox.capacity=5")
    assert waits.severity == "warning" and "4 waves" in waits.message
    assert findings_of("S1", HEALTHY) == []


@pytest.mark.catalogue("S5")
def test_S5_the_training_host_carries_the_pool(findings_of):
    full = ("sandbox.max_tasks=16", "sandbox.max_runs_per_task=8")
    (found,) = findings_of("S5", STARVED, *full)
    assert found.severity == "warning"
    assert "128 sandboxes × 0.25 GiB = 32 GiB RAM" in found.message and "205 GiB of temporary disk" in found.message
    (too_much,) = findings_of("S5", STARVED, *full, "hardware.disk_gib=200")
    assert too_much.severity == "error"
    (apart,) = findings_of("S5", HEALTHY)
    assert apart.severity == "notice"


@pytest.mark.catalogue("S6")
def test_S6_ramp_of_560_trials_at_6_per_second(findings_of, plan_of):
    assert round(plan_of(T1, "sandbox.creation_per_second=6").schedule.sandbox_ramp_seconds, 1) == 93.3
    (found,) = findings_of("S6", T1, "sandbox.creation_per_second=6")
    assert found.severity == "notice" and "560 sandboxes at 6 per second need 93.3 s" in found.message
    (slow,) = findings_of("S6", T1, "sandbox.creation_per_second=0.2")
    assert slow.severity == "warning"
    (unpaced,) = findings_of("S6", HEALTHY)
    assert "unpaced" in unpaced.message


def test_a_lease_shorter_than_a_trial_is_an_error(findings_of):
    (found,) = findings_of("T-lifetime", T1, "sandbox.lifetime_seconds=1800", "rollout.trial_wall_seconds=3600")
    assert found.severity == "error" and "lives 1800 s" in found.message and "3600 s" in found.message
