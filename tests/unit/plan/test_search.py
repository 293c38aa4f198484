"""`--search`: the whole space of a small model, and that what it promises is what the plan then says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.plan.search import SearchAnswer, search_layouts
from t1cli.spec.load import load_experiment
from t1cli.ui.search_view import search_lines

GRPO = "qwen3-8b-grpo"


def search(name: str, *overrides: str) -> SearchAnswer:
    return search_layouts(load_experiment(Path(name), overrides))


def own_rows(found: SearchAnswer) -> list[str]:
    return [line for line in search_lines(found, source=GRPO, width=100) if line.startswith(("* ", "~ "))]


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


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("topology.tp=2", "trainer.recompute.kind=none", "trainer.optimizer_cpu_offload=false"),
        ("trainer.recompute.kind=full", "trainer.recompute.method=block", "trainer.recompute.num_layers=3"),
        ("trainer.recompute.kind=selective", "trainer.recompute.modules=[core_attn]"),
    ],
)
def test_the_experiment_as_it_is_stands_beside_what_its_axes_could_be(settings: tuple[str, ...], plan_of) -> None:
    small = ("hardware.usable_gib=60", *settings)
    found, plan = search(GRPO, *small), plan_of(GRPO, *small)
    peak = max(stage.peak_gib for role in plan.memory.roles.values() for stage in role.stages)
    assert found.own is not None and found.own.current and found.own.settings == ()
    assert (found.own.peak_gib, found.own.verdict) == (pytest.approx(peak), plan.verdict)
    (variant,) = [layout for layout in found.layouts if layout.current]
    assert variant.settings != () or variant == found.own
    again = plan_of(GRPO, *small, *variant.settings)
    assert max(stage.peak_gib for stage in again.memory.roles["actor"].stages) == pytest.approx(
        variant.peak_gib, abs=0.01
    )


def test_an_experiment_that_does_not_fit_is_shown_as_one_that_does_not() -> None:
    small = ("hardware.usable_gib=60", "topology.tp=1", "trainer.recompute.kind=none")
    found = search(GRPO, *small)
    rows = own_rows(found)
    assert [(row[0], row.split()[-1]) for row in rows] == [("*", "OOM")]
    assert found.own is not None and f"{found.own.peak_gib:7.1f}" in rows[0] and found.own.peak_gib > 60


def test_what_its_own_axes_could_be_is_a_row_of_its_own() -> None:
    found = search(GRPO, "topology.tp=1", "trainer.recompute.kind=none", "hardware.usable_gib=100")
    rows = own_rows(found)
    told = {row[0]: row.split()[-1] for row in rows}
    assert told == {"*": "OOM", "~": "FITS"}


def test_the_fewest_changes_that_fit_are_named() -> None:
    small = ("hardware.usable_gib=79.1", "topology.tp=1")
    found = search(GRPO, *small)
    assert found.own is not None and found.own.verdict == "OOM"
    assert found.simplest is not None and found.simplest.verdict == "FITS" and len(found.simplest.settings) == 1
    told = "\n".join(search_lines(found, source=GRPO, width=100, overrides=small))
    (line,) = [line for line in told.splitlines() if line.startswith("Fewest changes, FITS, ")]
    assert f"--set {found.simplest.settings[0]}" in line and "--set hardware.usable_gib=79.1" in line
    fits = search(GRPO)
    assert fits.simplest == fits.own and "Fewest" not in "\n".join(search_lines(fits, source=GRPO, width=100))


def test_a_layout_that_cannot_be_has_reasons_and_no_row() -> None:
    found = search(GRPO, "topology.tp=3")
    assert found.own is None and any("tp 3" in reason for reason in found.own_impossible)
    assert "* the experiment as it is cannot exist: tp 3" in "\n".join(search_lines(found, source=GRPO, width=100))


def test_progress_counts_every_layout() -> None:
    told: list[tuple[int, int]] = []
    found = search_layouts(load_experiment(Path(GRPO)), lambda done, total: told.append((done, total)))
    assert told == [(done, len(found.layouts)) for done in range(len(found.layouts))]


def test_nothing_fits_on_a_tiny_card() -> None:
    assert not search(GRPO, "hardware.usable_gib=4").found


def test_an_engine_without_gpus_has_nothing_to_search() -> None:
    with pytest.raises(BadInput, match="no GPU layout"):
        search("quickstart")


def test_a_row_of_the_experiment_itself_stands_there_once() -> None:
    low = replace(search(GRPO, "hardware.usable_gib=79.1"))
    own = next(layout for layout in low.layouts if layout.current)
    # Far down the list, where it is shown below the best.
    crowd = tuple(layout for layout in low.layouts if not layout.current) * 3
    rows = own_rows(replace(low, layouts=(*(one for one in crowd if one.verdict != "OOM"), own), own=own))
    assert len(rows) == 1
