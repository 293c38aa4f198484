"""`t1 plan` as a command: exit codes, JSON, overrides, --explain and --diff."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from t1cli.cli.app import app
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import experiments_dir

T1 = "t1-strategy15k"


def t1(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def answer(*arguments: str) -> tuple[int, dict[str, object]]:
    result = t1(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("spec", [T1, str(experiments_dir() / T1), str(experiments_dir() / T1 / "experiment.yaml")])
def test_a_name_a_directory_and_a_file_are_the_same(spec: str) -> None:
    exit_code, plan = answer(spec)
    assert exit_code == 0 and plan["name"] == T1 and plan["format_version"] == 1


def test_tight_is_yes_unless_strict() -> None:
    stages = [s for role in answer(T1)[1]["memory"]["roles"].values() for s in role["stages"]]
    tight = f"hardware.usable_gib={max(stage['peak_gib'] for stage in stages) + 0.1:.2f}"
    assert answer(T1, "--set", tight)[0] == 0
    exit_code, plan = answer(T1, "--set", tight, "--strict")
    assert exit_code == 1 and plan["verdict"] == "TIGHT"


def test_an_impossible_layout_is_a_no_with_its_arithmetic() -> None:
    exit_code, plan = answer(T1, "--set", "topology.ep=48")
    assert exit_code == 1 and plan["verdict"] == "OOM"
    assert any("48" in f["message"] for f in plan["findings"] if f["id"] == "M5")


@pytest.mark.parametrize(
    "arguments",
    [("no-such-experiment",), (T1, "--set", "rollout.batchsize=3"), (T1, "--explain", "rollout.batchsize")],
)
def test_bad_input_exits_2_and_says_nothing_on_stdout(arguments: tuple[str, ...]) -> None:
    result = t1(*arguments, "--json")
    assert result.exit_code == 2 and result.stdout == ""


def test_explain_shows_the_chain_of_a_value() -> None:
    exit_code, found = answer(T1, "--set", "rollout.batch_size=256", "--explain", "rollout.batch_size")
    (item,) = found["explained"]
    assert exit_code == 0 and item["value"] == 256 and item["where"] == "--set"
    assert item["replaced"][0]["value"] == 512 and "presets/rollout/t1-84k.yaml:" in item["replaced"][0]["where"]


def test_explain_shows_the_formula_of_a_figure() -> None:
    (item,) = answer(T1, "--explain", "schedule.optimizer_steps")[1]["explained"]
    assert "num_rollouts" in item["formula"]


def test_diff_against_a_spec_names_values_and_figures() -> None:
    exit_code, diff = answer(T1, "--set", "topology.cp=2", "--diff", T1)
    assert exit_code == 0
    (value,) = diff["spec"]
    assert (value["key"], value["old"], value["new"], value["where"]) == ("topology.cp", 4, 2, "--set")
    assert {"verdict", "findings.M2 error"} <= {figure["key"] for figure in diff["figures"]}


def test_diff_against_a_saved_plan(tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    saved.write_text(t1(T1, "--json").stdout)
    assert answer(T1, "--diff", str(saved))[1]["figures"] == []
    figures = {f["key"]: f for f in answer(T1, "--set", "rollout.num_rollouts=7", "--diff", str(saved))[1]["figures"]}
    assert figures["schedule.rollouts"]["new"] == 7


def test_a_json_that_is_no_plan_is_bad_input(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert t1(T1, "--diff", str(other)).exit_code == 2


def test_the_text_is_plain_80_columns_and_ends_with_a_command() -> None:
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    code = "import sys; from t1cli.cli.app import app; sys.argv[0] = 't1'; app()"
    command = [sys.executable, "-c", code, "plan", "t1-56gpu-crash"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 80 or line.startswith("Next: ") for line in lines)
    assert any(line.startswith("OOM   ") for line in lines)
    assert lines[-1].strip().endswith("exit 1") and "Next: `t1 plan t1-56gpu-crash --set" in done.stdout


def test_planning_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pathlib import Path; from t1cli.spec.load import load_experiment; "
        "from t1cli.plan.build import build_plan; build_plan(load_experiment(Path('t1-strategy15k'))); "
        "print([m for m in ('torch', 'ray', 'numpy', 'wandb', 'rich', 'httpx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_diff_against_a_run_directory_has_values_too(tmp_path: Path) -> None:
    run = tmp_path / "attempt_1"
    run.mkdir()
    (run / "plan.json").write_text(t1(T1, "--json").stdout)
    resolved = load_experiment(Path(T1)).spec.model_dump(mode="json")
    (run / "spec.resolved.yaml").write_text(json.dumps(resolved))
    diff = answer(T1, "--set", "rollout.num_rollouts=7", "--diff", str(run))[1]
    assert [change["key"] for change in diff["spec"]] == ["rollout.num_rollouts"]
    assert diff["spec"][0]["old"] == 112


def test_search_as_json_and_as_a_table() -> None:
    result = t1("qwen3-8b-grpo", "--search", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["searched"] >= len(found["layouts"]) > 20
    assert found["seconds"] > 0 and found["memory_overlay"] is None
    assert {"tp", "pp", "cp", "ep", "etp", "vpp", "peak_gib", "verdict", "score", "why_not"} <= set(found["layouts"][0])
    table = t1("qwen3-8b-grpo", "--search")
    assert "Next: `t1 plan qwen3-8b-grpo --set " in table.stdout and "settings predicted in" in table.stdout
