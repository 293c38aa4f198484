"""Host RAM, reasons against a layout, packing, and phases outside training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_model import Device, Layout, Loss, Optimizer, Recompute, Workload, cap_advice, model, predict, wasted
from memory_model.host import heaviest_counts, trainer_host_gib
from memory_model.layout import stages, why_impossible

QWEN = model("Qwen3-30B-A3B")
HYBRID = model("Qwen3.5-122B-A10B")
CARD = Device("H200", 139.8)


def test_host_memory_of_a_public_report() -> None:
    """slime #1851: 102.4 GB a trainer process when an 8 x H100 node of 1,007 GB ran out."""
    step = Workload(max_tokens_per_gpu=20_480, optimizer=Optimizer(offload_fraction=1.0, precision_aware=True))
    layout = Layout(world=8, tp=4, ep=8)
    assert trainer_host_gib(QWEN, layout, step) * 2**30 / 1e9 == pytest.approx(102.4, rel=0.06)


def test_a_critic_holds_the_vocabulary_once() -> None:
    step = Workload(max_tokens_per_gpu=8192)
    actor, critic = (heaviest_counts(QWEN, Layout(world=8, ep=8), step, critic=critic) for critic in (False, True))
    head = QWEN.vocab_size * QWEN.hidden_size
    assert actor.total - critic.total == pytest.approx(head, rel=0.001)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (Layout(world=24, tp=16), "does not divide 24 training GPUs"),
        (Layout(world=32, tp=2, ep=3), "ep 3 does not divide 128 experts"),
        (Layout(world=8, tp=8), "neither divides the other"),
        (Layout(world=8, pp=1, vpp=2), "vpp 2 needs pp above 1"),
        (Layout(world=8, pp=8, vpp=4), "48 layers do not split over 8 stages x vpp 4"),
        (Layout(world=8, tp=2, sp=False), "needs sequence parallelism"),
        (Layout(world=0), "world = 0 is not a positive number"),
    ],
)
def test_reasons_are_arithmetic(layout: Layout, words: str) -> None:
    arch = replace(QWEN, num_key_value_heads=6) if layout.tp == 8 else QWEN
    assert any(words in reason for reason in why_impossible(arch, layout))


def test_uneven_stages() -> None:
    layout = Layout(world=4, pp=4, first_stage_layers=9, last_stage_layers=13)
    assert [len(stage.layers) for stage in stages(48, layout)] == [9, 13, 13, 13]
    assert not why_impossible(QWEN, replace(layout, ep=1))


def test_tp_above_the_groups_and_replicated_deltanet() -> None:
    found = wasted(HYBRID, Layout(world=64, tp=4, pp=2, cp=2, ep=32))
    texts = [item.message for item in found if item.id == "M4"]
    assert any("17408-wide qkv (34.0 KiB a token)" in text for text in texts)
    assert any("3.19 B parameters are copied to all 4 TP ranks" in text for text in texts)


def test_packing() -> None:
    step = Workload(max_tokens_per_gpu=8192, longest_sample_tokens=40_000)
    assert [step.tokens_per_rank(cp) for cp in (1, 2, 4, 8)] == [40_000, 20_000, 10_000, 8192]
    assert not cap_advice(step, 4).cap_binds
    assert cap_advice(step, 8).cap_binds


def test_a_colocated_rollout_is_a_phase() -> None:
    step = Workload(max_tokens_per_gpu=4096, colocated_rollout=True, sglang_mem_fraction=0.7)
    stage = predict(QWEN, Layout(world=32, tp=2, ep=16), step, CARD).stages[0]
    (rollout,) = [phase for phase in stage.phases if phase.name == "rollout"]
    assert rollout.terms["inference engine"] == pytest.approx(0.7 * 139.8)


def test_the_critic_has_no_logits() -> None:
    step = Workload(max_tokens_per_gpu=16_384, recompute=Recompute("uniform"), loss=Loss("slime_rl"))
    layout = Layout(world=32, tp=2, pp=2, ep=8)
    actor = predict(QWEN, layout, step, CARD).stages[-1]
    critic = predict(QWEN, layout, step, CARD, "critic").stages[-1]
    assert "logits" in actor.terms
    assert all("logits" not in phase.terms for phase in critic.phases)
    head = QWEN.vocab_size * QWEN.hidden_size / 2 * 2 / 2**30
    assert actor.terms["weights"] - critic.terms["weights"] == pytest.approx(head, rel=0.01)


def test_temperature_costs_one_more_copy_of_the_logits() -> None:
    layout = Layout(world=8, tp=2, ep=4)
    step = Workload(max_tokens_per_gpu=16_384, recompute=Recompute("uniform"), loss=Loss("slime_rl"))
    warm = replace(step, loss=Loss("slime_rl", temperature=0.7))
    plain = predict(QWEN, layout, step, CARD).stages[0].phases[0].terms["logits"]
    assert predict(QWEN, layout, warm, CARD).stages[0].phases[0].terms["logits"] == pytest.approx(plain * 1.4)
