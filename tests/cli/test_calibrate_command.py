"""`t1 calibrate`: a log of our own writing word for word, a run, the overlay it writes, and every way to be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from t1cli.cli.app import app
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import data_root

T1 = "t1-strategy15k"
TESTS = data_root() / "tests"
LOG = "tests/data/memory/trainer.txt"
GOLDEN = TESTS / "cli" / "golden" / "calibrate.txt"


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the golden text holds no directory of this machine."""
    monkeypatch.chdir(data_root())
    monkeypatch.setenv("COLUMNS", "80")


def calibrate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["calibrate", *arguments])


def test_the_text_word_for_word() -> None:
    result = calibrate(LOG, "--spec", T1)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == GOLDEN.read_text()
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_the_overlay_moves_the_plan_to_the_readings(tmp_path: Path) -> None:
    output = tmp_path / "ours.json"
    result = calibrate(LOG, "--spec", T1, "--output", str(output), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["format_version"] == 1 and found["output"] == str(output)
    assert found["num_readings"] == 9 and len(found["compared"]) == 5
    assert found["held_out_after_gib"] < 0.5 * found["held_out_before_gib"]
    assert {change["name"] for change in found["changes"]} >= {"activation_scale", "reserved_over_allocated"}
    plan = CliRunner().invoke(app, ["plan", T1, "--set", f"trainer.memory_overlay={output}", "--json"])
    memory = json.loads(plan.stdout)["memory"]
    peak = max(stage["peak_gib"] for role in memory["roles"].values() for stage in role["stages"])
    assert peak == pytest.approx(86_894 / 1024, abs=0.3)
    assert memory["overlay"]["name"] == str(output) and LOG in memory["overlay"]["about"]


def test_an_overlay_is_replaced_and_another_file_is_not(tmp_path: Path) -> None:
    output = tmp_path / "ours.json"
    assert calibrate(LOG, "--spec", T1, "--output", str(output)).exit_code == 0
    text = output.read_text()
    assert calibrate(LOG, "--spec", T1, "--output", str(output)).exit_code == 0 and output.read_text() == text
    output.write_text('{"mine": 1}\n')
    refused = calibrate(LOG, "--spec", T1, "--output", str(output))
    assert refused.exit_code == 2 and "not as t1 wrote it" in refused.stderr and refused.stdout == ""
    assert output.read_text() == '{"mine": 1}\n'


def test_a_run_brings_its_own_spec(tmp_path: Path) -> None:
    run = tmp_path / "t1" / "attempt_1"
    run.mkdir(parents=True)
    (run / "spec.resolved.yaml").write_text(json.dumps(load_experiment(Path(T1)).spec.model_dump(mode="json")))
    (run / "metrics.jsonl").write_text('{"step": 1, "memory/max_allocated_gib": 72.4}\n')
    found = json.loads(calibrate("t1", "--runs-dir", str(tmp_path), "--json").stdout)
    (item,) = found["compared"]
    assert item["measured_gib"] == 72.4 and abs(item["error_after_gib"]) < abs(item["error_before_gib"])
    assert found["held_out_after_gib"] is None


def test_a_fit_that_makes_held_back_readings_worse_is_not_written(tmp_path: Path) -> None:
    """Two logs that disagree: each alone pulls the coefficients away from the other."""
    for name, mebibytes in (("one.txt", 92_570), ("two.txt", 80_282)):
        (tmp_path / name).write_text(f"|  {mebibytes}MiB / 97280MiB |  98%  Default |")
    logs = (str(tmp_path / "one.txt"), str(tmp_path / "two.txt"))
    result = calibrate(*logs, "--spec", T1, "--output", str(tmp_path / "ours.json"))
    assert result.exit_code == 1 and "Worse: the fit is not used" in result.stdout
    assert not (tmp_path / "ours.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such.log", "--spec", T1], "no log, directory or run by this name"),
        ([LOG], "not a run of t1"),
        ([LOG, "--spec", "quickstart"], "embedded engine has no GPU memory"),
        ([LOG, "--spec", "qwen3-8b-grpo", "--role", "critic"], "grpo has no critic"),
        ([LOG, "--spec", T1, "--set", "topology.ep=48"], "48"),
        (["Makefile", "--spec", T1], "no memory reading to compare"),
        ([LOG, "--spec", "no-such-experiment"], "no-such-experiment"),
        ([LOG, "--spec", T1, "--output", "-", "--json"], "with --json stdout is one object"),
        ([LOG, "--spec", T1, "--output", "/no/such/folder/ours.json"], "cannot write /no/such/folder/ours.json"),
    ],
)
def test_bad_input_is_located_and_says_nothing_on_stdout(arguments: list[str], says: str) -> None:
    result = calibrate(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert says in result.stderr


def test_all_missing_sources_are_named_at_once() -> None:
    result = calibrate("one.log", "two.log", "--spec", T1)
    assert result.exit_code == 2 and "--> one.log" in result.stderr and "--> two.log" in result.stderr
