"""The 45-hour run rebuilt, public curves, and what the printed rules do on them: figures, not impressions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.watch.lint import histories_dir
from t1cli.watch.packs import load_packs, pack_of, shipped_packs

VARIABLES = ("--set", "rollout_batch_size=16", "--set", "samples_per_rollout=128")
PRINTED = """\
# any one of them ends the training process
early_stop:
  - metric: terminal/non_trainable_ratio
    window: 30 rollout_steps
    threshold: > 0.7
    severity: warning
  - metric: terminal/non_trainable_ratio
    window: 60 rollout_steps
    threshold: > 0.85
    severity: stop
  - metric: train/grad_norm
    window: 30 rollout_steps
    threshold: < 0.05
    severity: stop
  - metric: train/kl_loss
    window: 5 rollout_steps
    threshold: > 0.5
    severity: stop
  - metric: rollout/zero_std/sum
    window: 10 rollout_steps
    threshold: > rollout_batch_size * 0.9
    severity: stop
  - metric: perf/rollout_time
    window: 20 rollout_steps
    threshold: > 3× moving_avg(60-step prior)
    severity: warning  # look at the daemon
"""


def replayed(*arguments: str | Path) -> tuple[int, dict]:  # type: ignore[type-arg]
    result = CliRunner().invoke(app, ["watch", *map(str, arguments), "--replay", "--json"])
    assert result.stdout, result.stderr
    return result.exit_code, json.loads(result.stdout)


def first_firing(answer: dict) -> dict[str, int]:  # type: ignore[type-arg]
    return {rule["name"]: rule["fired_at"][0] for rule in answer["rules"] if rule["fired_at"]}


@pytest.fixture(scope="module")
def shipped(dead_run_csv: Path) -> dict:  # type: ignore[type-arg]
    code, answer = replayed(dead_run_csv, "--gpus", "8", *VARIABLES)
    assert code == 1
    return answer


@pytest.mark.catalogue("S1", "L1")
def test_shipped_packs_warn_in_time_and_name_the_pool(shipped: dict) -> None:  # type: ignore[type-arg]
    rules = {rule["name"]: rule for rule in shipped["rules"]}
    starvation = rules["signal-starvation"]
    assert starvation["severity"] == "warning"
    assert 360 <= starvation["fired_at"][0] <= 400
    # Of the run's 360 GPU-hours, about 175 came after this warning.
    assert starvation["gpu_hours_left"] == pytest.approx(176, abs=3)
    diagnoses = {diagnosis["name"]: diagnosis for diagnosis in shipped["diagnoses"]}
    assert 360 <= diagnoses["environment pool starved"]["from"] <= 400
    assert "mode collapse" not in diagnoses
    assert "pair 4: replies shorten by themselves" not in diagnoses
    assert "dilution, not collapse" in diagnoses


@pytest.mark.catalogue("L1", "L2")
def test_shipped_stop_needs_the_second_sign_and_says_what_it_saves(shipped: dict) -> None:  # type: ignore[type-arg]
    assert shipped["stop"]["rule"] == "signal-dead"
    # Above 0.85 over 60 rollouts from about step 610; the gradient is below a tenth of its start some 120 steps later.
    assert shipped["stop"]["step"] == pytest.approx(728, abs=25)
    assert shipped["stop"]["gpu_hours_saved"] == pytest.approx(89, abs=8)


def test_printed_rules_fire_where_arithmetic_says(dead_run_csv: Path, tmp_path: Path) -> None:
    """0.52 until step 360, then 0.76: the mean of 30 crosses 0.7 with the 23rd new point, at step 382 to 384."""
    printed = tmp_path / "printed.yaml"
    printed.write_text(PRINTED, encoding="utf-8")
    _, answer = replayed(dead_run_csv, "--gpus", "8", "--rules", printed, *VARIABLES)
    fired = first_firing(answer)
    assert 382 <= fired["non-trainable-ratio-above-30-warning"] <= 385
    assert fired["non-trainable-ratio-above-60-stop"] > 600
    assert answer["stop"]["rule"] == "non-trainable-ratio-above-60-stop"
    _, preset = replayed(dead_run_csv, "--gpus", "8", "--rules", "postmortem-verbatim", *VARIABLES)
    assert first_firing(preset) == fired


def test_stopping_at_step_360_saves_183_gpu_hours(dead_run_csv: Path, tmp_path: Path) -> None:
    """(161,973 s - 79,440 s) x 8 GPUs; the postmortem says 28."""
    pack = tmp_path / "at360.yaml"
    pack.write_text(
        "rules:\n  - {name: at-360, metric: terminal/non_trainable_ratio, above: 0, after: 360, severity: stop, "
        "confirmed: true}\n"
    )
    _, answer = replayed(dead_run_csv, "--gpus", "8", "--rules", pack)
    assert answer["stop"] == {
        "rule": "at-360",
        "step": 360,
        "hours": 22.067,
        "gpu_hours_saved": pytest.approx(183.4, abs=0.1),
    }


def test_shipped_preset_is_the_printed_block() -> None:
    (preset,) = load_packs(["postmortem-verbatim"])
    assert pack_of(PRINTED, "printed") == preset
    forms = [(rule.above, rule.below, rule.baseline and rule.baseline.points) for rule in preset.rules]
    assert forms == [
        (0.7, None, None),
        (0.85, None, None),
        (None, 0.05, None),
        (0.5, None, None),
        ("rollout_batch_size * 0.9", None, None),
        (3.0, None, 60),
    ]


def everything() -> list[str]:
    return [part for name in shipped_packs() if name != "postmortem-verbatim" for part in ("--rules", name)]


def test_healthy_curve_raises_nothing_at_all() -> None:
    code, answer = replayed(histories_dir() / "verl_grpo_qwen1.5b_healthy.csv", *everything())
    assert code == 0
    assert first_firing(answer) == {}
    assert answer["bindings"]["train/entropy_loss"] == "actor/entropy"


def test_entropy_fall_is_a_warning_in_time_and_never_a_stop() -> None:
    code, answer = replayed(histories_dir() / "verl_grpo_qwen7b_entropy_collapse.csv", *everything())
    assert code == 1
    warnings = {r["name"]: r["fired_at"][0] for r in answer["rules"] if r["fired_at"] and r["severity"] == "warning"}
    assert 300 <= warnings["entropy-collapses"] <= 560
    assert answer["stop"] is None
    assert "entropy collapse" in {diagnosis["name"] for diagnosis in answer["diagnoses"]}


def test_base_model_start_is_no_alarm() -> None:
    _, answer = replayed(histories_dir() / "verl_grpo_llama3b_entropy_oscillation.csv", *everything())
    assert [step for rule in answer["rules"] for step in rule["fired_at"] if step <= 114] == []
    assert answer["stop"] is None


def test_sweep_shows_what_a_threshold_saves_and_what_false_alarms_cost(dead_run_csv: Path) -> None:
    healthy = histories_dir() / "verl_grpo_qwen1.5b_healthy.csv"
    arguments = [
        "watch",
        dead_run_csv,
        "--gpus",
        "8",
        "--sweep",
        "gradient-small=0.05,0.1",
        "--control",
        healthy,
        "--json",
    ]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.stderr
    swept = {(one["threshold"], one["control"]): one for one in json.loads(result.stdout)["sweep"]}
    assert swept[0.1, False]["fired_at"] <= swept[0.05, False]["fired_at"]
    assert swept[0.1, False]["gpu_hours"] >= swept[0.05, False]["gpu_hours"]
    assert swept[0.05, True]["fired_at"] is None
