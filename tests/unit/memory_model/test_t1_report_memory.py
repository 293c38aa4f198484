"""The T1 report's numbers, first with no constant taken from it, then with the fitted overlay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import memory_model
from memory_model import Layout, predict, text_parameters, why_impossible
from memory_model.calibration import calibrate, expected
from memory_model.overlay import read_overlay
from memory_model.t1_report import (
    CARD,
    CRASH_LAYOUT,
    CRASH_TOKENS,
    MODEL,
    PRODUCTION,
    WALL_TOKENS,
    observations,
    workload,
)
from memory_model.waste import largest_ep, wasted

ARCH = memory_model.model(MODEL)
OVERLAY = Path(memory_model.__file__).parent / "data" / "overlays" / "t1-report.json"


@pytest.mark.parametrize(("cp", "logits_gib", "verdict"), [(2, 29.84, "OOM"), (4, 14.92, "FITS")])
def test_logits_and_verdict_at_the_wall(cp: int, logits_gib: float, verdict: str) -> None:
    last = predict(ARCH, PRODUCTION[cp], workload(WALL_TOKENS, "native_cp"), CARD).stages[-1]
    assert round(last.terms["logits"], 2) == logits_gib
    assert sum(last.terms[name] for name in ("weights", "gradients", "optimizer")) == pytest.approx(55.2, abs=0.05)
    assert predict(ARCH, PRODUCTION[cp], workload(WALL_TOKENS, "native_cp"), CARD).verdict == verdict


def test_no_constant_of_the_report_is_needed_to_come_within_3_gib() -> None:
    for item in observations():
        assert expected(item, memory_model.DEFAULT) == pytest.approx(item.gib, abs=3.0)


def test_the_56_gpu_layout_dies_in_the_critic_at_the_joint_step() -> None:
    critic = predict(ARCH, CRASH_LAYOUT, workload(CRASH_TOKENS, "slime"), CARD, "critic")
    states = [sum(stage.terms[name] for name in ("weights", "gradients", "optimizer")) for stage in critic.stages]
    assert [round(value, 1) for value in states] == [77.1, 74.5]
    assert critic.verdict == "OOM"
    # Alone on the GPU, without the actor's process beside it, the critic's forward still fits.
    alone = predict(ARCH, CRASH_LAYOUT, replace(workload(CRASH_TOKENS, "slime"), roles=("critic",)), CARD, "critic")
    forward = next(phase for phase in alone.stages[0].phases if phase.name == "values forward")
    assert forward.peak_gib < CARD.usable_gib
    joint = next(phase for phase in critic.stages[0].phases if phase.name == "values forward")
    assert joint.peak_gib > CARD.usable_gib


def test_the_overlay_is_within_1_gib_and_the_crash_within_a_tenth() -> None:
    coefficients = read_overlay(OVERLAY)
    for item in observations():
        tolerance = 0.1 if "crash" in item.label else 1.0
        assert expected(item, coefficients) == pytest.approx(item.gib, abs=tolerance)


def test_the_shipped_overlay_is_what_the_fit_gives() -> None:
    fit = calibrate(observations(), ("activation_scale", "reserved_over_allocated", "communicator_gib"))
    shipped = read_overlay(OVERLAY)
    for change in fit.changes:
        assert getattr(shipped, change.name) == pytest.approx(change.after, abs=1e-3)


def test_expert_parallelism_of_16_and_8() -> None:
    """Same expert optimizer bytes, doubled expert weights and gradients (M3)."""
    step = workload(WALL_TOKENS, "native_cp")
    found = {}
    for ep in (8, 16):
        stage = predict(ARCH, replace(PRODUCTION[4], ep=ep), step, CARD).stages[0]
        found[ep] = stage.terms
    assert found[8]["optimizer"] == pytest.approx(found[16]["optimizer"])
    experts = text_parameters(ARCH).experts / 2
    extra = experts * 6 * (1 / 8 - 1 / 16) / 2**30
    grown = found[8]["weights"] + found[8]["gradients"] - found[16]["weights"] - found[16]["gradients"]
    assert grown == pytest.approx(extra)
    assert largest_ep(ARCH, PRODUCTION[4]) == 32
    assert any(item.id == "M3" for item in wasted(ARCH, PRODUCTION[4]))


def test_dp_1_forces_ep_2() -> None:
    """All GPUs in TP x PP: 128 of 256 experts on every GPU, at any number of nodes (M5)."""
    layout = Layout(world=64, tp=2, pp=32, ep=16)
    (reason,) = [text for text in why_impossible(ARCH, layout) if text.startswith("world = pp x ep x etp x edp")]
    assert "ep <= 2" in reason
    assert "128 of 256 experts" in reason


def test_native_context_parallelism_divides_the_working_set() -> None:
    def layer_gib(form: memory_model.workload.GdnForm, cp: int) -> float:
        stage = predict(ARCH, replace(CRASH_LAYOUT, world=64, cp=cp), workload(32_768, form), CARD, "critic").stages[0]
        backward = next(phase for phase in stage.phases if phase.name == "train backward")
        return backward.terms["recomputed layer"] + backward.terms["layer gradients"]

    assert layer_gib("native_cp", 4) == pytest.approx(layer_gib("slime", 1) / 4, rel=0.05)
    assert layer_gib("slime", 4) > 0.8 * layer_gib("slime", 1)
