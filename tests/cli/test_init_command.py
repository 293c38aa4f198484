"""`t1 init` and `t1 tasks new`: with options, with a person, and where something is there already."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app


def t1(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "My Campaign"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def tasks() -> None:
    assert t1("tasks", "new", "tasks/one", "tasks/two")[0] == 0


def test_new_tasks_are_written_once_and_can_be_read(tasks: None) -> None:
    code, _, err = t1("tasks", "new", "tasks/one")
    assert (code, "tasks/one exists and is left alone" in err) == (1, True)
    assert t1("tasks", "new", "tasks/a b")[0] == 2
    assert t1("tasks", "new", "/proc/one")[0] == 3


def test_what_new_tasks_say_to_edit_is_there(in_own_folder: Path) -> None:
    _, out, err = t1("tasks", "new", "tasks/one")
    said = out.removeprefix("wrote tasks/one: edit ").strip().replace(" and ", ", ")
    assert all((in_own_folder / "tasks/one" / name).is_file() for name in said.split(", ")), said
    assert "a new folder environment/files" in err


def test_a_broken_task_says_which_test_failed_and_what_two_runs_say_alike_is_said_once(tasks: None) -> None:
    Path("tasks/one/tests/test_outputs.py").write_text("def test_order():\n    assert False, 'b before a'\n")
    Path("tasks/two/tests/test_outputs.py").write_text("import nothing_of_that_name\n")
    code, out, _ = t1("tasks", "check", "tasks", "--backend", "process")
    assert code == 1
    assert "(0 of 1 tests passed; failed: test_order (AssertionError: b before a))" in out
    assert "✗ two: oracle, no-op: reward_missing: test.sh ended with status 2:\n    " in out
    assert out.count("No module named 'nothing_of_that_name'") == 1


def test_without_options_and_without_a_person_everything_is_proposed(tasks: None) -> None:
    code, out, err = t1("init", "--gpus", "0")
    assert (code, err) == (0, "")
    assert out == "wrote experiment.yaml: PPO · sync · this machine, 2 tasks\nNext: t1 preflight experiment.yaml\n"
    assert Path("experiment.yaml").read_text().splitlines()[2] == "name: my-campaign"
    assert t1("plan", "experiment.yaml")[0] == 0


def test_nothing_is_overwritten(tasks: None) -> None:
    Path("experiment.yaml").write_text("mine")
    code, out, err = t1("init")
    assert (code, out, Path("experiment.yaml").read_text()) == (1, "", "mine")
    assert "t1 init --output" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tasks", "nowhere"], "nowhere is no directory"),
        ([], "`t1 tasks new tasks/NAME`"),
        (["--algorithm", "dpo"], "grpo or ppo"),
        (["--output", "no/such/folder.yaml"], "make it first"),
    ],
)
def test_bad_input_writes_nothing(arguments: list[str], said: str, in_own_folder: Path) -> None:
    code, out, err = t1("init", "--gpus", "0", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert list(in_own_folder.iterdir()) == []


def test_json_is_one_object(tasks: None) -> None:
    code, out, _ = t1("init", "--gpus", "8", "--model", "qwen3-8b", "--json")
    answer = json.loads(out)
    assert (code, answer["spec"], answer["plan"]["verdict"]) == (0, "experiment.yaml", "FITS")


def test_preflight_of_it_says_what_the_plan_still_misses(tasks: None) -> None:
    assert t1("init", "--gpus", "8", "--model", "qwen3-8b")[0] == 0
    code, out, _ = t1("preflight", "experiment.yaml", "--only", "tasks.pool")
    assert (code, out.splitlines()[-2:]) == (0, ["the plan refuses it: T-blank", "Next: t1 plan experiment.yaml"])


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_again_until_the_answer_can_be(
    tasks: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["nowhere", "tasks", "mine", "many", "8", "b200", "h100", "qwen3-4b", "", "", "/w"]
    monkeypatch.setattr(sys, "stdin", Terminal("\n".join([*typed, ""])))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit) as ended:
        app(["init"])
    assert ended.value.code == 0
    asked = capsys.readouterr()
    assert "no directory nowhere" in asked.err and "'many' is no number of GPUs" in asked.err
    assert "'b200' is none of" in asked.err
    assert "FITS" in asked.out
    assert "hf: /w\n" in Path("experiment.yaml").read_text()


def test_an_input_that_ends_early_writes_nothing(
    tasks: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("tasks\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit) as ended:
        app(["init"])
    assert (ended.value.code, Path("experiment.yaml").exists()) == (2, False)
    assert "input ended" in capsys.readouterr().err
