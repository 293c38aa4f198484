"""The command line under closed, full and foreign streams, odd variables, and names that no file can have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from t1cli.cli.app import app

T1 = Path(sys.executable).with_name("t1")
LONG = "x" * 5000
ODD = "\x1b[2J\x07\u202e"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **environment}
    line = f"T1={T1}; {command}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=120)


def t1(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$T1 plan quickstart >&-", 0),
        ("$T1 plan quickstart --json >&- 2>&- <&-", 0),
        ("$T1 plan nosuch 2>/dev/full", 2),
        ("$T1 plan quickstart --json >/dev/full", 3),
        ("set -o pipefail; $T1 plan t1-56gpu-crash | true", 1),
        ("set -o pipefail; $T1 plan t1-strategy15k | true", 0),
        ("set -o pipefail; $T1 explain | true", 0),
        ("mkdir gone && cd gone && rmdir ../gone && $T1 plan quickstart", 3),
    ],
)
def test_streams_that_fail_do_not_change_the_answer(command: str, code: int, tmp_path: Path) -> None:
    done = shell(f"cd {tmp_path}; {command}")
    assert done.returncode == code and "Traceback" not in done.stderr and "bug in t1" not in done.stderr


def test_an_encoding_without_the_characters_still_gets_the_answer() -> None:
    plain = {"PYTHONIOENCODING": "ascii"}
    assert json.loads(shell("$T1 plan t1-strategy15k --json", **plain).stdout)["name"] == "t1-strategy15k"
    assert shell("$T1 plan quickstart", COLUMNS="abc", **plain).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", LONG],
        ["plan", "quickstart", "--diff", LONG],
        ["runs", "--runs-dir", LONG],
        ["status", LONG],
        ["logs", LONG],
        ["watch", LONG, "--replay"],
        ["launch", "quickstart", "--dry-run", "--runs-dir", LONG],
        ["preflight", "quickstart", "--only", "host", "--runs-dir", LONG],
        ["runs", "--runs-dir", "/etc/passwd"],
        ["status", "--runs-dir", "~nobody-of-that-name/x"],
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_names_that_no_file_can_have_are_bad_input(arguments: list[str]) -> None:
    result = t1(*arguments)
    assert result.exit_code == 2 and len(result.stderr) < 20_000 and result.stdout == ""


@pytest.mark.parametrize("command", [["plan"], ["status"], ["logs"], ["launch", "--dry-run"]])
def test_messages_spell_control_characters_out(command: list[str]) -> None:
    result = t1(command[0], f"no{ODD}such", *command[1:])
    assert result.exit_code == 2 and "\\x1b[2J" in result.stderr
    assert not set(result.stderr) & set(ODD.replace("[2J", ""))


BAD_TASK = {"task.toml": "[agent\n"}
OLDER_TASK = {"task.yaml": "instruction: x\n", "run-tests.sh": "true\n", "solution.sh": "true\n", "Dockerfile": ""}
WRITERS = [
    ["schema", "--output", "OUT"],
    ["convert", "qwen3-8b-grpo", "--to", "script", "-o", "OUT"],
    ["init", "--yes", "--gpus", "0", "--tasks", "experiments/quickstart/tasks", "--output", "OUT"],
    ["tasks", "check", "BAD", "--record", "OUT"],
    ["tasks", "audit", "BAD", "--record", "OUT"],
    ["tasks", "new", "OUT"],
    ["tasks", "convert", "OLDER", "OUT"],
    ["pool", "serve", "--port", "0", "--directory", "OUT"],
]


@pytest.mark.parametrize("command", WRITERS, ids=lambda command: " ".join(command[:2]))
def test_an_output_that_cannot_be_is_named_and_is_no_bug(command: list[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    for name, files in (("BAD", BAD_TASK), ("OLDER", OLDER_TASK)):
        (tmp_path / name / "one").mkdir(parents=True)
        for file, text in files.items():
            (tmp_path / name / "one" / file).write_text(text)
    (tmp_path / "file").touch()
    places = {"BAD": str(tmp_path / "BAD"), "OLDER": str(tmp_path / "OLDER"), "OUT": str(tmp_path / "file" / "x")}
    result = t1(*(places.get(part, part) for part in command))
    assert result.exit_code in (2, 3), result.output
    assert str(tmp_path / "file") in result.stderr.replace("\n", "") and "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["check", "audit"])
def test_a_record_in_a_directory_that_is_not_there_is_said_before_anything_runs(command: str, tmp_path: Path) -> None:
    (tmp_path / "pool" / "one").mkdir(parents=True)
    (tmp_path / "pool" / "one" / "task.toml").write_text(BAD_TASK["task.toml"])
    result = t1("tasks", command, str(tmp_path / "pool"), "--record", str(tmp_path / "no" / "record.jsonl"))
    assert result.exit_code == 2 and "is no directory" in result.stderr and result.stdout == ""
