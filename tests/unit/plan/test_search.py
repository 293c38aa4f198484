"""`--search`: the whole space of a small model, and that what it promises is what the plan then says."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.plan.search import SearchAnswer, search_layouts
from t1cli.spec.load import load_experiment

GRPO = "qwen3-8b-grpo"


def search(name: str, *overrides: str) -> SearchAnswer:
    return search_layouts(load_experiment(Path(name), overrides))


@pytest.fixture(scope="module")
def found() -> SearchAnswer:
    return search(GRPO, "hardware.usable_gib=79.1")


def test_every_layout_of_four_gpus_is_there_once(found: SearchAnswer) -> None:
    axes = {(layout.tp, layout.pp, layout.cp) for layout in found.layouts}
    assert axes == {(t, p, c) for t in (1, 2, 4) for p in (1, 2, 4) for c in (1, 2, 4) if t * p * c in (1, 2, 4)}
    keys = [(layout.tp, layout.pp, layout.vpp, layout.cp, layout.ep, layout.etp) for layout in found.layouts]
    assert len(keys) == len(set(keys)) and sum(layout.current for layout in found.layouts) == 1


def test_best_first_and_misses_have_a_reason(found: SearchAnswer) -> None:
    order = [("FITS", "TIGHT", "OOM").index(layout.verdict) for layout in found.layouts]
    assert order == sorted(order)
    fitting = [layout.score for layout in found.layouts if layout.verdict == "FITS"]
    assert fitting == sorted(fitting, reverse=True)
    assert all(bool(layout.why_not) == (layout.verdict != "FITS") for layout in found.layouts)


def test_the_plan_of_a_found_layout_says_the_same(found: SearchAnswer, plan_of) -> None:
    for layout in [*found.layouts[:3], found.layouts[-1]]:
        plan = plan_of(GRPO, "hardware.usable_gib=79.1", *layout.settings)
        peak = max(stage.peak_gib for role in plan.memory.roles.values() for stage in role.stages)
        assert peak == pytest.approx(layout.peak_gib, abs=0.01) and plan.verdict == layout.verdict


def test_nothing_fits_on_a_tiny_card() -> None:
    assert not search(GRPO, "hardware.usable_gib=4").found


def test_an_engine_without_gpus_has_nothing_to_search() -> None:
    with pytest.raises(BadInput, match="no GPU layout"):
        search("quickstart")
