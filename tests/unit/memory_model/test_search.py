"""The search covers what is legal, sorts by its objective and says why the others fail."""

from __future__ import annotations

import pytest

from memory_model import Device, Layout, Loss, Recompute, Workload, model, predict, why_impossible
from memory_model.search import Space, search

ARCH = model("Qwen3-30B-A3B")
CARD = Device("H100-80GB", 79.1)
STEP = Workload(
    max_tokens_per_gpu=16_384, longest_sample_tokens=32_768, loss=Loss("slime_rl"), roles=("actor", "critic")
)
SMALL = Space(max_tp=4, vpps=(1, 2), etps=(1,), offload_fractions=(0.0,))


def test_every_legal_layout_is_judged_once_per_setting() -> None:
    found = search(ARCH, 16, STEP, CARD, space=SMALL)
    assert found.searched == len(found.candidates) > 100
    assert all(not why_impossible(ARCH, item.layout) for item in found.candidates)
    seen = {(item.layout, item.workload) for item in found.candidates}
    assert len(seen) == len(found.candidates)
    by_hand = {
        (tp, pp, cp, ep)
        for tp in (1, 2, 4)
        for pp in (1, 2, 4, 8, 16)
        for cp in (1, 2, 4, 8, 16)
        for ep in (1, 2, 4, 8, 16)
        if tp * pp * cp <= 16 and not why_impossible(ARCH, Layout(16, tp=tp, pp=pp, cp=cp, ep=ep))
    }
    assert {(i.layout.tp, i.layout.pp, i.layout.cp, i.layout.ep) for i in found.candidates} == by_hand


def test_best_first_and_a_reason_for_every_miss() -> None:
    found = search(ARCH, 16, STEP, CARD, space=SMALL)
    order = ["FITS", "TIGHT", "OOM"]
    ranks = [order.index(item.verdict) for item in found.candidates]
    assert ranks == sorted(ranks) and ranks[0] == 0
    fits = [item.score for item in found.candidates if item.verdict == "FITS"]
    assert fits == sorted(fits, reverse=True)
    misses = [item for item in found.candidates if item.verdict == "OOM"]
    assert misses and all(item.why_not for item in misses)
    assert [item.peak_gib for item in misses] == sorted(item.peak_gib for item in misses)


def test_a_found_layout_really_fits() -> None:
    best = search(ARCH, 16, STEP, CARD, space=SMALL).candidates[0]
    for role in ("actor", "critic"):
        assert predict(ARCH, best.layout, best.workload, CARD, role).verdict == "FITS"


def test_axes_can_be_kept() -> None:
    space = Space(max_tp=4, vpps=(1,), etps=(1,), recomputes=(Recompute("uniform"),), keep_axes={"tp": 2, "pp": 2})
    found = search(ARCH, 16, STEP, CARD, space=space)
    assert found.candidates
    assert {(item.layout.tp, item.layout.pp) for item in found.candidates} == {(2, 2)}


def test_caps_that_change_nothing_are_not_counted_twice() -> None:
    """Two caps below the longest sample are the same micro-batch (M7)."""
    space = Space(
        vpps=(1,), etps=(1,), recomputes=(Recompute("uniform"),), offload_fractions=(0.0,), token_caps=(1024, 2048)
    )
    found = search(ARCH, 8, STEP, CARD, space=space)
    assert len({item.layout for item in found.candidates if item.layout.cp == 1}) == sum(
        item.layout.cp == 1 for item in found.candidates
    )


def test_layers_that_do_not_split_get_a_smaller_last_stage() -> None:
    """DeepSeek-V3 has 61 layers."""
    arch = model("DeepSeek-V3")
    space = Space(vpps=(1,), etps=(1,), recomputes=(Recompute("uniform"),), keep_axes={"pp": 4, "tp": 8})
    found = search(arch, 256, STEP, Device("H200", 139.8), space=space)
    assert found.candidates
    assert {item.layout.last_stage_layers for item in found.candidates} == {13}


@pytest.mark.slow
@pytest.mark.parametrize("world", [64, 128])
def test_the_whole_space_of_the_122b(world: int, capsys: pytest.CaptureFixture[str]) -> None:
    step = Workload(
        max_tokens_per_gpu=8192,
        longest_sample_tokens=86_016,
        micro_batches=16,
        loss=Loss("t1_rl"),
        gdn_form="native_cp",
        roles=("actor", "critic"),
    )
    found = search(model("Qwen3.5-122B-A10B"), world, step, Device("95 GiB", 95.0))
    assert found.searched > 20_000
    with capsys.disabled():
        print(f"\n{world} GPUs: {found.searched} layouts judged in {found.seconds:.1f} s")
