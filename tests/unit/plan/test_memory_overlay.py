"""`trainer.memory_overlay`: the T1 report's totals through a plan, what the plan says, and overlays that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from t1cli.errors import BadInput, ExitCode
from t1cli.plan.build import build_plan
from t1cli.plan.plan import Plan
from t1cli.plan.search import search_layouts
from t1cli.spec.load import LoadedSpec, load_experiment
from t1cli.spec.locate import experiments_dir
from t1cli.ui.plan_view import plan_lines

T1, CRASH, GRPO = "t1-strategy15k", "t1-56gpu-crash", "qwen3-8b-grpo"
ON_T1 = (T1, "t1-binary-tmax", "t1-binary-ablation", "t1-rst38k", CRASH)
UNCALIBRATED = "trainer.memory_overlay=null"
# 632 MiB = 2 B x 8,192 (a GatedDeltaNet layer's value width) x 40,448 tokens.
CRASH_TOKENS = ("rollout.context_tokens=40448", "rollout.summary.trigger_tokens=32768")
CRASH_GIB = 90.56 + 632 / 1024


def peak(plan: Plan) -> float:
    return max(stage.peak_gib for role in plan.memory.roles.values() for stage in role.stages)


@pytest.mark.parametrize(("cp", "report_gib", "verdict"), [(2, 100.3, "OOM"), (4, 81.8, "FITS")])
def test_the_report_s_peaks_within_1_gib_and_its_verdicts(plan_of, cp: int, report_gib: float, verdict: str) -> None:
    plan = plan_of(T1, f"topology.cp={cp}")
    assert peak(plan) == pytest.approx(report_gib, abs=1.0) and plan.verdict == verdict
    assert plan_of(T1, f"topology.cp={cp}", UNCALIBRATED).verdict == verdict


def test_the_crash_within_a_tenth_at_its_token_count(plan_of) -> None:
    """What the crashing process itself had in use: without the other process and the saver's margin."""
    plan = plan_of(CRASH, *CRASH_TOKENS)
    (forward,) = [phase for phase in plan.memory.roles["critic"].stages[0].phases if phase.name == "values forward"]
    outside = forward.terms["other role's process"] + forward.terms["memory saver margin"]
    assert forward.peak_gib - outside == pytest.approx(CRASH_GIB, abs=0.1)
    assert forward.peak_gib > plan.memory.usable_gib and plan.verdict == "OOM"


@pytest.mark.parametrize("name", ON_T1)
def test_every_campaign_of_the_report_uses_the_fit_and_shows_it(plan_of, name: str) -> None:
    used = plan_of(name).to_json()["memory"]["overlay"]
    assert used["name"] == "t1-report" and used["fitted"] is True and used["coefficients"]["activation_scale"] > 1
    text = "\n".join(plan_lines(plan_of(name), width=200, exit_code=ExitCode.YES))
    assert "fitted overlay t1-report: " in text and "activation_scale 1.4117" in text


def test_uncalibrated_figures_remain(plan_of) -> None:
    plain = plan_of(T1, UNCALIBRATED)
    assert plain.memory.overlay is None and peak(plain) == pytest.approx(84.4, abs=0.1)
    assert "overlay" not in "\n".join(plan_lines(plain, width=200, exit_code=ExitCode.YES))
    assert plan_of(GRPO).memory.overlay is None


def test_a_proposed_change_and_the_search_use_it_too(plan_of, findings_of) -> None:
    (found,) = findings_of("M2", T1, "topology.cp=2")
    proposed = f"{peak(plan_of(T1)):.1f} GiB"
    assert found.fix.startswith("--set topology.cp=4 ") and proposed in found.fix
    small = ("hardware.usable_gib=79.1", "trainer.memory_overlay=t1-report")
    best = search_layouts(load_experiment(Path(GRPO), small))
    assert best.memory_overlay == "t1-report"
    for layout in (best.layouts[0], best.layouts[-1]):
        assert peak(plan_of(GRPO, *small, *layout.settings)) == pytest.approx(layout.peak_gib, abs=0.01)


def at(folder: Path, overlay: str) -> LoadedSpec:
    """The GRPO experiment in a folder of its own, with an overlay."""
    file = folder / "experiment.yaml"
    file.write_text((experiments_dir() / GRPO / "experiment.yaml").read_text())
    return load_experiment(file, [f"trainer.memory_overlay={overlay}"])


def test_a_file_beside_the_experiment(tmp_path: Path) -> None:
    body = {"format_version": 1, "about": "Ours.", "coefficients": {"fixed_extra_gib": 2.0}}
    (tmp_path / "ours.json").write_text(json.dumps(body))
    plan = build_plan(at(tmp_path, "ours.json"))
    assert plan.memory.overlay is not None and plan.memory.overlay.about == "Ours."
    assert peak(plan) - peak(build_plan(load_experiment(Path(GRPO)))) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        ("[" * 100_000, "no JSON"),
        ("[]", "not a JSON object"),
        ('{"format_version": 2}', "format_version is 2, expected 1"),
        ('{"format_version": 1}', "no `coefficients`"),
        ('{"format_version": 1, "coefficients": {"fudge": 1}}', r"unknown coefficients \['fudge'\]"),
        ('{"format_version": 1, "coefficients": {"activation_scale": "1"}}', "expected a number"),
        ('{"format_version": 1, "coefficients": {"activation_scale": NaN}}', "expected a number"),
        ('{"format_version": 1, "coefficients": {"communicator_gib": -1}}', "below 0"),
    ],
)
def test_what_is_no_overlay_is_located_bad_input(tmp_path: Path, content: str | None, says: str) -> None:
    if content is not None:
        (tmp_path / "ours.json").write_text(content)
    with pytest.raises(BadInput, match=says) as raised:
        build_plan(at(tmp_path, "ours.json"))
    (told,) = raised.value.diagnostics
    assert told.where == "--set" and "t1-report" in told.hint


def test_a_shipped_name_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(BadInput) as raised:
        build_plan(load_experiment(Path(GRPO), ["trainer.memory_overlay=t2-report"]))
    assert "t1-report" in raised.value.diagnostics[0].hint
