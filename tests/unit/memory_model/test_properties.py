"""What must hold for every model, layout and workload."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory_model import Device, Layout, Loss, Recompute, Workload, known_models, model, predict, stages
from memory_model.layout import why_impossible
from memory_model.parameters import mtp_parameters, text_parameters
from memory_model.predict import predict_worst
from memory_model.terms.optimizer import optimizer_bytes
from memory_model.terms.pipeline import kept_at_backward
from memory_model.terms.weights import local_counts
from memory_model.workload import Optimizer

CARD = Device("any", 80.0)
BAND = (0.9, 1.1)
POWERS = st.sampled_from((1, 2, 4, 8))


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Layout, Workload]:
    name = draw(st.sampled_from(known_models()))
    arch = model(name)
    tp, pp, cp, ep = draw(POWERS), draw(POWERS), draw(POWERS), draw(POWERS)
    dp = draw(POWERS)
    layout = Layout(world=tp * pp * cp * dp, tp=tp, pp=pp, cp=cp, ep=ep if arch.is_moe else 1)
    assume(not why_impossible(arch, layout))
    workload = Workload(
        max_tokens_per_gpu=draw(st.sampled_from((2048, 8192, 20_000))),
        longest_sample_tokens=draw(st.integers(1, 60_000)),
        micro_batches=draw(st.integers(1, 16)),
        recompute=draw(st.sampled_from((Recompute(), Recompute("uniform"), Recompute("block", num_layers=2)))),
        loss=Loss(draw(st.sampled_from(("slime_rl", "t1_rl", "te_cross_entropy")))),
    )
    return name, layout, workload


@given(cases())
@settings(max_examples=60, deadline=None)
def test_more_training_gpus_never_need_more_memory(case: tuple[str, Layout, Workload]) -> None:
    name, layout, workload = case
    twice = replace(layout, world=layout.world * 2)
    assume(not why_impossible(model(name), twice))
    one = predict(model(name), layout, workload, CARD, band=BAND)
    two = predict(model(name), twice, workload, CARD, band=BAND)
    for before, after in zip(one.stages, two.stages, strict=True):
        assert after.allocated_gib <= before.allocated_gib + 1e-9


@given(cases())
@settings(max_examples=60, deadline=None)
def test_expert_optimizer_bytes_do_not_depend_on_ep(case: tuple[str, Layout, Workload]) -> None:
    name, layout, _ = case
    arch = model(name)
    assume(arch.is_moe)
    setup = Optimizer()

    def expert_bytes(ep: int) -> float:
        at = replace(layout, ep=ep)
        stage = stages(arch.num_hidden_layers, at)[0]
        counts = local_counts(arch, at, stage, gdn_form="slime", with_mtp=False, critic=False)
        return optimizer_bytes(replace(counts, dense=0.0), at, setup)

    legal = [ep for ep in (1, 2, 4, 8) if not why_impossible(arch, replace(layout, ep=ep))]
    sizes = {round(expert_bytes(ep)) for ep in legal}
    assert len(sizes) == 1


@given(cases(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_stages_sum_to_the_model(case: tuple[str, Layout, Workload], with_mtp: bool) -> None:
    name, layout, _ = case
    arch = model(name)
    one = replace(layout, tp=1, cp=1, ep=1, world=layout.pp, vocab_multiple=1)
    held = sum(
        local_counts(arch, one, stage, gdn_form="slime", with_mtp=with_mtp, critic=False).total
        for stage in stages(arch.num_hidden_layers, one)
    )
    expected = text_parameters(arch).total + (mtp_parameters(arch).total if with_mtp else 0)
    copies = 0
    if layout.pp > 1:
        table = arch.vocab_size * arch.hidden_size
        copies = table * (
            arch.tie_word_embeddings + (with_mtp and arch.mtp_num_layers > 0 and not arch.tie_word_embeddings)
        )
    assert held == expected + copies


@given(cases())
@settings(max_examples=80, deadline=None)
def test_terms_sum_to_the_peak_and_units_agree(case: tuple[str, Layout, Workload]) -> None:
    name, layout, workload = case
    prediction = predict(model(name), layout, workload, CARD, band=BAND)
    for stage in prediction.stages:
        assert sum(stage.terms.values()) == pytest.approx(stage.peak_gib)
        assert min(stage.terms.values()) >= 0
        for phase in stage.phases:
            assert sum(phase.terms.values()) == pytest.approx(phase.peak_gib)
            assert phase.allocated_gib <= phase.reserved_gib <= phase.peak_gib
        assert stage.low_gib <= stage.peak_gib <= stage.high_gib


@given(cases(), st.integers(1, 20_000))
@settings(max_examples=60, deadline=None)
def test_more_tokens_never_need_less(case: tuple[str, Layout, Workload], more: int) -> None:
    name, layout, workload = case
    longer = replace(workload, longest_sample_tokens=workload.longest_sample_tokens + more)
    one = predict(model(name), layout, workload, CARD, band=BAND).peak_gib
    assert predict(model(name), layout, longer, CARD, band=BAND).peak_gib >= one - 1e-9


@given(cases())
@settings(max_examples=60, deadline=None)
def test_the_short_cut_of_the_search_finds_the_same_worst_stage(case: tuple[str, Layout, Workload]) -> None:
    name, layout, workload = case
    whole = predict(model(name), layout, workload, CARD)
    assert predict_worst(model(name), layout, workload, CARD).peak_gib == pytest.approx(whole.peak_gib)


def test_a_stage_whose_layers_stand_in_another_order_is_not_taken_for_the_first() -> None:
    """Which two layers a `block` computes again decides what the others keep: a hybrid's stages differ in that."""
    layout = Layout(world=32, tp=1, pp=8, cp=4, ep=1, etp=1, vpp=1, sp=True)
    recompute = Recompute(kind="block", num_layers=2)
    workload = Workload(32_768, 1, micro_batches=2, recompute=recompute, loss=Loss(kind="t1_rl"))
    whole = predict(model("Qwen3.5-35B-A3B"), layout, workload, CARD)
    assert predict_worst(model("Qwen3.5-35B-A3B"), layout, workload, CARD).peak_gib == pytest.approx(whole.peak_gib)
    assert max(whole.stages, key=lambda stage: stage.peak_gib).stage == 2


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_a_schedule_never_keeps_more_passes_than_there_are(pp: int, vpp: int, micro_batches: int) -> None:
    for stage in range(pp):
        for alive in kept_at_backward(pp, vpp if pp > 1 else 1, stage, micro_batches):
            assert all(0 <= count <= micro_batches for count in alive)
            assert sum(alive) >= 1


def test_first_stage_of_an_interleaved_schedule() -> None:
    """1 + (pp - 1) / (pp x vpp) times pp micro-batches (megatron/training/theoretical_memory_usage.py)."""
    pp, vpp = 4, 3
    most = max(sum(alive) for alive in kept_at_backward(pp, vpp, 0, 32))
    assert most / vpp == pytest.approx((1 + (pp - 1) / (pp * vpp)) * pp)
