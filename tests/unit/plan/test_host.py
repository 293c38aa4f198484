"""Host memory of a training node, and M8 from it."""

from __future__ import annotations

import pytest

T1, GRPO = "t1-strategy15k", "qwen3-8b-grpo"
CPU_ADAM = ("trainer.optimizer_cpu_offload=true", "trainer.precision_aware_optimizer=true")


def test_the_terms_sum_to_what_is_needed(plan_of):
    for name in (T1, GRPO, "quickstart"):
        host = plan_of(name).host
        assert host.needed_gib == pytest.approx(sum(host.terms.values()))


def test_cpu_adam_of_two_122B_roles_is_16_bytes_a_parameter(plan_of):
    terms = plan_of(T1, *CPU_ADAM).host.terms
    # 122.1e9 parameters × 16 B × 2 roles over 8 nodes; GatedDeltaNet's TP copies come on top.
    exact = 122_111_526_912 * 16 * 2 / 8 / 2**30
    assert exact <= terms["cpu_optimizer"] <= exact * 1.04
    assert "cpu_optimizer" not in plan_of(T1).host.terms


def test_offload_moves_optimizer_bytes_from_one_pile_to_the_other(plan_of):
    on_gpu, on_cpu = plan_of(T1).host.terms, plan_of(T1, *CPU_ADAM).host.terms
    critic_weights = on_cpu["offloaded_train_state"]
    assert critic_weights == pytest.approx(on_cpu["actor_weights"])
    # 12 B a parameter backed up by the memory saver become 16 B of CPU Adam.
    assert (on_gpu["offloaded_train_state"] - critic_weights) * 16 / 12 == pytest.approx(on_cpu["cpu_optimizer"])


@pytest.mark.catalogue("C9")
def test_C9_two_snapshots_only_in_a_pipeline(plan_of, findings_of):
    terms = plan_of(T1).host.terms
    assert terms["old_actor_snapshots"] == pytest.approx(2 * terms["actor_weights"])
    (found,) = findings_of("C9", T1)
    assert f"{terms['old_actor_snapshots']:,.0f} GiB a node" in found.message
    assert "old_actor_snapshots" not in plan_of(T1, "rollout.pipeline=sync", "rollout.max_staleness=0").host.terms


@pytest.mark.catalogue("M8")
def test_M8_two_optimizers_and_260_sandboxes_on_one_node(findings_of, plan_of):
    node = ("hardware.host_ram_gib=1100", "sandbox.memory_per_sandbox_gib=0.5")
    (found,) = findings_of("M8", T1, *CPU_ADAM, *node)
    assert found.severity == "error" and "has 1,100" in found.message and "cpu optimizer" in found.message
    assert "dmesg" in found.message
    assert findings_of("M8", T1, "hardware.host_ram_gib=2265") == []


def test_routing_rows_of_two_batches_are_alive_in_a_pipeline(plan_of):
    plan = plan_of(T1)
    assert plan.host.terms["routing_rows"] == pytest.approx(2 * plan.schedule.routing_bytes_per_step / 2**30)
