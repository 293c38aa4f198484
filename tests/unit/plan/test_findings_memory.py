"""M1 to M9 on the report's layouts."""

from __future__ import annotations

import pytest

T1, CRASH, GRPO = "t1-strategy15k", "t1-56gpu-crash", "qwen3-8b-grpo"


@pytest.mark.catalogue("M1")
def test_M1_the_56_gpu_layout_dies_in_the_critic_too(plan_of, findings_of):
    assert plan_of(CRASH).verdict == "OOM"
    (found,) = findings_of("M1", CRASH)
    assert found.severity == "error" and "critic" in found.message
    assert "the other, offloaded role's process" in found.message and "GiB > 95" in found.message
    states = plan_of(CRASH).memory.roles["critic"].stages
    assert [round(sum(s.terms[name] for name in ("weights", "gradients", "optimizer")), 1) for s in states] == [
        77.1,
        74.5,
    ]


@pytest.mark.catalogue("M1")
def test_M1_every_proposed_change_does_what_it_says(findings_of, plan_of):
    (found,) = findings_of("M1", CRASH)
    for proposal in found.fix.split("; or "):
        command, _, promise = proposal.partition(" (peak ")
        plan = plan_of(CRASH, *command.removeprefix("--set ").split(" --set "))
        peak = max(stage.peak_gib for role in plan.memory.roles.values() for stage in role.stages)
        assert promise == f"{peak:.1f} GiB, {plan.verdict})" and plan.verdict != "OOM"
    assert "FITS" in found.fix


@pytest.mark.catalogue("M2")
def test_M2_logits_bind_at_CP2_and_CP4_is_proposed(findings_of, plan_of):
    wall = ("rollout.context_tokens=86016", "trainer.logits_bytes_form=t1_report")
    (found,) = findings_of("M2", T1, *wall, "topology.cp=2")
    assert found.severity == "error" and "logits, 29.8 GiB" in found.message
    assert "6 B × 43,008 tokens at CP 2 × 248,320/TP 2" in found.message
    assert found.fix.startswith("--set topology.cp=4 ")
    assert all(found.severity == "warning" for found in findings_of("M2", T1, *wall, "topology.cp=4"))
    last = plan_of(T1, *wall, "topology.cp=4").memory.roles["actor"].stages[-1]
    assert round(last.terms["logits"], 2) == 14.92


def test_a_band_that_crosses_the_limit_is_tight(plan_of, findings_of):
    peak = max(stage.peak_gib for role in plan_of(T1).memory.roles.values() for stage in role.stages)
    plan = plan_of(T1, f"hardware.usable_gib={peak + 0.1:.3f}")
    assert plan.verdict == "TIGHT" and plan.accepted_for_launch
    assert {f.severity for f in plan.findings if f.id in ("M1", "M2")} == {"warning"}


@pytest.mark.catalogue("M3")
def test_M3_expert_parallelism_below_the_largest(findings_of):
    (found,) = findings_of("M3", T1, "topology.ep=8")
    assert found.severity == "warning" and found.fix == "--set topology.ep=32"
    # 57.98e9 routed expert parameters a stage × 6 B × (1/8 - 1/32)
    assert f"{115_964_116_992 / 2 * 6 * (1 / 8 - 1 / 32) / 2**30:.1f} GiB more" in found.message
    assert findings_of("M3", T1, "topology.ep=32") == []


@pytest.mark.catalogue("M3")
def test_M3_expert_optimizer_is_the_same_at_EP_8_and_16(plan_of):
    def optimizer(ep: int) -> float:
        return plan_of(CRASH, f"topology.ep={ep}").memory.roles["critic"].stages[0].terms["optimizer"]

    assert abs(optimizer(8) - optimizer(16)) < 1e-9


@pytest.mark.catalogue("M4")
def test_M4_tp_above_the_key_value_groups(findings_of):
    found = findings_of("M4", T1, "topology.tp=4", "topology.cp=2")
    assert [f.severity for f in found] == ["warning", "warning"]
    assert any("2 key/value groups" in f.message for f in found)
    assert any("3.19 B parameters" in f.message for f in found)
    assert [f.severity for f in findings_of("M4", T1, "topology.tp=2")] == ["notice"]


@pytest.mark.catalogue("M5")
def test_M5_DP_1_leaves_no_room_for_experts(findings_of, plan_of):
    dp_one = ("topology.train_nodes=2", "topology.tp=2", "topology.pp=8", "topology.cp=1", "topology.ep=16")
    (found,) = findings_of("M5", T1, *dp_one)
    assert found.severity == "error" and "ep <= 2" in found.message and "128 of 256 experts" in found.message
    plan = plan_of(T1, *dp_one)
    assert plan.verdict == "OOM" and not plan.accepted_for_launch and plan.memory.roles == {}


def test_more_gpus_than_the_cluster_has(findings_of):
    (found,) = findings_of("T-gpus", T1, "hardware.num_nodes=15")
    assert "64 training + 64 rollout" in found.message and "15 nodes × 8 = 120" in found.message


@pytest.mark.catalogue("M6")
def test_M6_both_forms_of_deltanet(findings_of):
    (native,) = findings_of("M6", T1, "trainer.gdn_context_parallel=native")
    assert native.severity == "notice"
    (gathered,) = findings_of("M6", T1, "trainer.gdn_context_parallel=none")
    assert gathered.severity == "warning" and "does not cut GatedDeltaNet" in gathered.message
    (pinned,) = findings_of("M6", CRASH)
    assert "at CP 1" in pinned.message
    assert findings_of("M6", GRPO) == []


@pytest.mark.catalogue("M7")
def test_M7_the_cap_cannot_cut_a_long_sample(findings_of, plan_of):
    wall = ("rollout.context_tokens=86016", "topology.cp=4")
    (found,) = findings_of("M7", T1, *wall, "trainer.max_tokens_per_gpu=8192")
    assert "86,016 tokens, 21,504 per GPU at cp 4" in found.message and "=21504" in found.fix
    assert findings_of("M7", T1, *wall, "trainer.max_tokens_per_gpu=21504") == []
    peaks = [
        plan_of(T1, *wall, f"trainer.max_tokens_per_gpu={cap}").memory.roles["actor"].stages[-1].peak_gib
        for cap in (4096, 8192, 21504)
    ]
    assert peaks[0] == peaks[1] == peaks[2]


@pytest.mark.catalogue("M8")
def test_M8_host_memory_with_its_terms(findings_of, plan_of):
    (found,) = findings_of("M8", "quickstart", "hardware.host_ram_gib=2")
    sandboxes = plan_of("quickstart").pool.demand / 16  # 64 MiB each
    assert found.severity == "error" and "has 2" in found.message and f"sandboxes {sandboxes:.1f}" in found.message
    assert findings_of("M8", "quickstart", "hardware.host_ram_gib=8") == []


@pytest.mark.catalogue("M9")
def test_M9_in_the_spec_and_in_the_environment(findings_of):
    (spec,) = findings_of("M9", T1, "trainer.expandable_segments=true", "trainer.offload_train=false")
    assert spec.severity == "error" and "PPO forces offload_train" in spec.message
    variable = "engine.env.PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    (env,) = findings_of("M9", T1, variable)
    assert "expandable_segments" in env.fix
    grpo = ("trainer.offload_train=false", "trainer.expandable_segments=true")
    assert findings_of("M9", GRPO, *grpo) == []
