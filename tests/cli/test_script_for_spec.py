"""A launch script where an experiment is expected, and the other way round: what makes the other is told."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app

SCRIPT = Path(__file__).parents[1] / "unit/slime/checkout/scripts/run-dense.sh"
TAKERS = [
    ["launch", "SPEC", "--dry-run"],
    ["launch", "SPEC", "--stop"],
    ["preflight", "SPEC"],
    ["eval", "weights", "SPEC"],
    ["checkpoint", "convert", "SPEC"],
    ["calibrate", "LOG", "--spec", "SPEC"],
    ["convert", "SPEC", "--to", "script"],
    ["plan", "quickstart", "--diff", "SPEC"],
]


def t1(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


@pytest.mark.parametrize("command", TAKERS, ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("name", ["my run.sh", "run"])
def test_every_command_that_takes_a_spec_names_what_makes_one(command: list[str], name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    script.write_text(SCRIPT.read_text())
    places = {"SPEC": str(script), "LOG": str(script)}
    code, answer, said = t1(*(places.get(word, word) for word in command))
    assert code == 2 and answer == "" and f"{script} is a launch script" in said
    convert = shlex.join(["t1", "convert", str(script), "--output", script.with_suffix(".yaml").name])
    assert f"`{convert}`" in said and f"`{shlex.join(['t1', 'plan', str(script)])}`" in said


def test_a_python_launcher_is_not_sent_to_convert(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text("import slime\n")
    code, _, said = t1("launch", str(tmp_path / "run.py"), "--dry-run")
    assert code == 2 and "is a launch script" in said and "t1 convert" not in said


def test_a_script_without_an_ending_is_planned(tmp_path: Path) -> None:
    shutil.copytree(SCRIPT.parent, tmp_path / "scripts")
    script = (tmp_path / "scripts" / SCRIPT.name).rename(tmp_path / "scripts" / "run")
    code, answer, said = t1("plan", str(script))
    assert code in (0, 1) and "peak GiB" in answer, said


@pytest.mark.parametrize(
    "spec", ["qwen3-8b-grpo", "experiments/qwen3-8b-grpo", "experiments/quickstart/experiment.yaml"]
)
def test_a_spec_converts_the_other_way(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    code, answer, said = t1("convert", spec)
    assert code == 2 and answer == "" and f"`t1 convert {spec} --to script`" in said


def test_what_comes_after_the_plan_of_a_script_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is for the conversion, a key of the spec for what comes after it."""
    shutil.copytree(SCRIPT.parent, tmp_path / "scripts")
    monkeypatch.chdir(tmp_path)
    code, answer, said = t1("plan", f"scripts/{SCRIPT.name}", "--set", "rollout.num_rollouts=7")
    assert code == 0, answer + said
    convert, preflight = re.findall("`(t1 [^`]*)`", answer.splitlines()[-2] + answer.splitlines()[-1])[-2:]
    assert "rollout" not in convert and t1(*shlex.split(convert)[1:])[0] == 0
    assert preflight == "t1 preflight run-dense.yaml --set rollout.num_rollouts=7"
    assert t1("plan", *shlex.split(preflight)[2:])[0] == 0
