"""Every command that t1 prints to be pasted repeats the options it came from."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.run.directory import RunDirectory
from t1cli.run.next_command import resume_command, stop_command
from t1cli.spec.command_line import command_line, with_settings
from t1cli.spec.load import load_experiment

STRATEGY = "t1-strategy15k"
SOURCES = Path(__file__).parents[2] / "t1cli"
NO_EXPERIMENT_IS_KNOWN = {"catalogue/explain.py", "cli/status.py", "ui/runs_view.py"}


def output(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments)).output


def next_of(text: str) -> list[str]:
    """The words of the last `Next:` line, as a shell reads them."""
    found = re.findall(r"^Next: (?:.*?`)?(t1 [^`\n]*?)(?:`.*)?$", text, re.MULTILINE)
    return shlex.split(found[-1])


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)))
def test_a_shell_reads_back_what_was_given(overrides: list[str]) -> None:
    words = shlex.split(command_line("plan", "spec", overrides=overrides))
    assert words[:3] == ["t1", "plan", "spec"] and words[4::2] == overrides and set(words[3::2]) <= {"--set"}


def test_a_key_set_anew_is_said_once_and_others_stay() -> None:
    assert with_settings(("a.b=1", "c=2"), ("a.b=3",)) == ("c=2", "a.b=3")


def test_a_fitting_plan_goes_on_with_the_same_settings() -> None:
    told = output("plan", STRATEGY, "--set", "rollout.num_rollouts=7")
    assert next_of(told) == ["t1", "preflight", STRATEGY, "--set", "rollout.num_rollouts=7"]


def test_a_fix_replaces_its_own_key_and_keeps_the_rest() -> None:
    told = output("plan", STRATEGY, "--set", "rollout.context_tokens=131072", "--set", "topology.cp=2")
    words = next_of(told)
    assert words[:5] == ["t1", "plan", STRATEGY, "--set", "rollout.context_tokens=131072"]
    assert "topology.cp=2" not in words and any(word.startswith("topology.cp=") for word in words)


def test_preflight_goes_on_with_settings_and_runs_directory(tmp_path: Path) -> None:
    given = ("--set", "rollout.num_rollouts=7", "--runs-dir", str(tmp_path / "my runs"))
    told = output("preflight", "quickstart", *given, "--only", "storage")
    assert next_of(told) == ["t1", "launch", "quickstart", *given]


@pytest.mark.parametrize("more", [(), ("--detach",), ("--accept", "M2", "--detach")])
def test_launch_without_a_terminal_repeats_its_options(tmp_path: Path, more: tuple[str, ...]) -> None:
    given = ("--set", "rollout.num_rollouts=7", "--runs-dir", str(tmp_path / "my runs"))
    told = " ".join(output("launch", "quickstart", *given, *more).split())
    (hint,) = re.findall(r"`(t1 launch [^`]*)`", told)
    words = shlex.split(hint)
    assert words[:7] == ["t1", "launch", "quickstart", *given] and words[-1] == "--yes"
    assert sorted(words[7:-1]) == sorted(more)


def test_a_plan_asked_strictly_goes_on_strictly_and_a_tight_one_is_searched() -> None:
    larger = ("--set", "rollout.context_tokens=131072")
    assert next_of(output("plan", STRATEGY, *larger))[:3] == ["t1", "preflight", STRATEGY]
    assert next_of(output("plan", STRATEGY, *larger, "--strict")) == ["t1", "plan", STRATEGY, *larger, "--search"]


def test_one_fix_for_all_that_is_wrong_with_an_axis_and_it_can_be_pasted() -> None:
    told = output("plan", STRATEGY, "--set", "topology.tp=3")
    assert told.count("✗ M5") == 4 and "T-heads" not in told
    wanted = ["t1", "plan", STRATEGY, "--set", "topology.tp=3", "--search"]
    (fix,) = re.findall(r"fix: `(t1 plan[^`]*)` lists every", told)
    assert shlex.split(fix) == next_of(told) == wanted


def test_what_a_gate_proposes_repeats_the_settings(tmp_path: Path) -> None:
    given = ("--set", "topology.cp=2", "--set", "trainer.gdn_context_parallel=native")
    said = json.loads(output("launch", STRATEGY, *given, "--dry-run", "--json", "--runs-dir", str(tmp_path)))
    (oom,) = [refusal for refusal in said["refusals"] if refusal["id"] == "OOM"]
    assert oom["fix"] == f"`{shlex.join(['t1', 'plan', STRATEGY, *given, '--search'])}` finds layouts that fit"
    told = " ".join(output("launch", "quickstart", "--resume", "--yes", "--runs-dir", str(tmp_path)).split())
    assert f"`t1 launch quickstart --runs-dir {tmp_path}` starts the first one" in told


def test_a_run_directory_is_enough_to_stop_or_resume_its_campaign(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "my runs" / "quickstart" / "attempt_1")
    where = ["--runs-dir", str(tmp_path / "my runs")]
    assert shlex.split(stop_command(run)) == ["t1", "launch", str(run.spec_yaml), *where, "--stop"]
    assert shlex.split(resume_command(run, None)) == ["t1", "launch", str(run.spec_yaml), *where, "--resume"]


def test_the_usual_runs_directory_is_not_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("T1_RUNS_DIR", str(tmp_path / "here"))
    loaded = load_experiment(Path("quickstart"), ["seed=3"])
    assert loaded.again("launch", runs_dir=tmp_path / "here") == "t1 launch quickstart --set seed=3"
    monkeypatch.delenv("T1_RUNS_DIR")
    assert loaded.again("launch", runs_dir="runs") == "t1 launch quickstart --set seed=3"


def test_no_message_names_a_command_about_an_experiment_without_the_experiment() -> None:
    """`t1 plan SPEC` in a hint makes a person look for what t1 knows: LoadedSpec.again gives the whole command."""
    sources = {path.relative_to(SOURCES).as_posix(): path for path in SOURCES.rglob("*.py")}
    bare = {name for name, path in sources.items() if any(map(_is_bare, _texts(path)))}
    assert bare - NO_EXPERIMENT_IS_KNOWN == set()


def _is_bare(text: str) -> bool:
    return re.search(r"t1 (plan|preflight|launch|eval \S+) (SPEC|…)", text) is not None


def _texts(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def test_one_is_singular() -> None:
    told = output("plan", "quickstart", "--set", "rollout.num_rollouts=1", "--set", "sandbox.capacity=1")
    assert "1 rollout, 1 optimizer step of 60 samples" in told
    said = output("launch", "quickstart", "--set", "algorithm.entropy_coef=0.01", "--dry-run")
    assert re.search(r"^1 refusal: it would not start$", said, re.MULTILINE)
