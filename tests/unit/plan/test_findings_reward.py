"""R1, R2, R5, R6, R7, R12 and F7 from the spec alone."""

from __future__ import annotations

import pytest

T1, GRPO = "t1-strategy15k", "qwen3-8b-grpo"


@pytest.mark.catalogue("F2")
def test_a_gate_that_slime_has_no_log_probs_for_is_said(findings_of) -> None:
    one = ("rollout.pipeline=sync", "rollout.max_staleness=0", "algorithm.steps_per_rollout=1")
    none = (*one, "algorithm.correction.kind=none")
    (found,) = findings_of("T-gate", GRPO, *none)
    assert found.severity == "warning" and "correction.kind=record" in found.fix
    assert findings_of("T-gate", GRPO, *one, "algorithm.correction.kind=apply")
    assert findings_of("T-gate", GRPO, *one, "algorithm.correction.kind=record") == [], (
        "what is recorded has a pass of its own"
    )
    assert findings_of("T-gate", GRPO, *none, "rollout.first_gap_limit=null") == []
    assert findings_of("T-gate", GRPO, *none, "algorithm.steps_per_rollout=2") == []
    assert findings_of("T-gate", GRPO, *none, "algorithm.keep_old_actor=true") == []
    assert findings_of("T-gate", T1, "algorithm.correction.kind=none") == [], "a critic needs the old log-probs"


@pytest.mark.catalogue("F7")
def test_F7_kl_under_routing_replay(findings_of):
    assert findings_of("F7", T1) == []
    loss, reward = findings_of("F7", T1, "algorithm.kl_loss_coef=0.01", "algorithm.kl_reward_coef=0.02")
    assert loss.severity == reward.severity == "warning"
    assert "kl_loss_coef is 0.01" in loss.message and "kl_reward_coef is 0.02" in reward.message
    assert findings_of("F7", T1, "algorithm.kl_loss_coef=0.01", "rollout.routing_replay=false") == []


@pytest.mark.catalogue("F7")
def test_F7_needs_experts(findings_of):
    assert findings_of("F7", GRPO, "algorithm.kl_loss_coef=0.01", "rollout.routing_replay=true") == []


@pytest.mark.catalogue("R1")
def test_R1_dense_reward_on_binary_verifiers(findings_of):
    (found,) = findings_of("R1", T1, "tasks.card.verifier=binary")
    assert found.severity == "error" and "binary verifiers" in found.message


@pytest.mark.catalogue("R1")
def test_R1_measured_coverage_below_the_minimum(findings_of):
    assert findings_of("R1", T1, "tasks.ctrf_minimum=0.9") == []
    (found,) = findings_of("R1", T1, "tasks.ctrf_minimum=0.95")
    assert "93.3% of 60 sampled tasks" in found.message and "95.0%" in found.message


@pytest.mark.catalogue("R2")
def test_R2_per_batch_scale_is_an_error_under_ppo(findings_of):
    (found,) = findings_of("R2", T1, "reward.scale_per_batch=true")
    assert found.severity == "error" and "4/8 = 0.5" in found.message and "4/35 = 0.11" in found.message


@pytest.mark.catalogue("R2")
def test_R2_ratio_is_an_error_under_ppo_and_a_notice_under_grpo(findings_of):
    (under_ppo,) = findings_of("R2", T1, "reward.kind=pass_ratio")
    assert under_ppo.severity == "error" and "--set reward.kind=ctrf_count" in under_ppo.fix
    (under_grpo,) = findings_of("R2", GRPO, "reward.signed=true")
    assert under_grpo.severity == "notice" and "2 × ratio - 1" in under_grpo.message


@pytest.mark.catalogue("R2")
@pytest.mark.parametrize(("scale", "found"), [(20, 0), (9, 1), (90, 0), (100, 1)])
def test_R2_scale_against_the_pools_p90(findings_of, scale, found):
    findings = findings_of("R2", T1, f"reward.scale={scale}")
    assert len(findings) == found
    assert all(f"earns {19 / scale:.2f} when solved" in finding.message for finding in findings)


ADDITIVE = ("reward.length.kind=additive", "reward.length.penalty_per_turn=0.001")


@pytest.mark.catalogue("R5")
def test_R5_additive_penalty_is_refused_with_the_arithmetic(findings_of):
    (found,) = findings_of("R5", T1, *ADDITIVE)
    # One test is worth 1/20 = 0.05, a turn 0.001: 50 extra turns pay for one more test.
    assert found.severity == "error"
    assert "worth 0.05" in found.message and "50 extra turns" in found.message


@pytest.mark.catalogue("R5")
def test_R5_allowed_explicitly_is_a_warning(findings_of):
    (found,) = findings_of("R5", T1, *ADDITIVE, "reward.length.allow=true")
    assert found.severity == "warning"


@pytest.mark.catalogue("R6")
def test_R6_efficiency_bonus(findings_of):
    (found,) = findings_of("R6", T1, "reward.length.kind=efficiency_bonus", "reward.length.bonus=0.2")
    # 0.2 × (1 - 22/25) = 0.024
    assert found.severity == "warning" and "0.024" in found.message


@pytest.mark.catalogue("R7")
def test_R7_order_of_a_five_test_ramble_and_a_four_test_solve(findings_of):
    multiplicative = "reward.length.kind=multiplicative"
    assert findings_of("R7", T1, multiplicative) == []
    (found,) = findings_of("R7", T1, multiplicative, "reward.length.half_life_turns=100")
    # 5/20 × 0.5^(25/100) = 0.210 ≥ 4/20 = 0.200
    assert found.severity == "error" and "0.210" in found.message and "0.200" in found.message


@pytest.mark.catalogue("R7")
def test_R7_half_life_at_which_the_order_flips(findings_of):
    # 5 · 0.5^(25/h) < 4 needs h < 25 / log2(5/4) = 77.66.
    multiplicative = "reward.length.kind=multiplicative"
    assert findings_of("R7", T1, multiplicative, "reward.length.half_life_turns=77") == []
    assert findings_of("R7", T1, multiplicative, "reward.length.half_life_turns=78") != []


@pytest.mark.catalogue("R7")
def test_R7_long_free_zone_and_no_negative(findings_of):
    found = findings_of(
        "R7",
        T1,
        "reward.length.kind=multiplicative",
        "reward.length.free_turns=30",
        "reward.length.zero_pass_penalty=0",
    )
    assert [f.severity for f in found] == ["warning", "warning"]
    assert "30 free turns" in found[0].message and "small negative" in found[1].message


@pytest.mark.catalogue("R12")
def test_R12_one_bit_where_tests_are_counted(findings_of):
    (found,) = findings_of("R12", T1, "reward.kind=binary")
    assert found.severity == "warning" and "median 4 tests" in found.message


@pytest.mark.catalogue("R12")
def test_R12_fallback_outweighs_a_median_solve(findings_of):
    (found,) = findings_of("R12", T1, "reward.fallback.value=1.0")
    assert "4/20 = 0.2" in found.message and "5.0×" in found.message
    assert findings_of("R12", T1, "reward.fallback.value=0.2") == []
