"""`--output`: somebody's file is left alone, t1's own is replaced, and what cannot be read back is only written to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.slime.script.signed import is_unedited, signed
from t1cli.spec.load import load_experiment

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "tests/unit/slime/checkout/scripts/run-dense.sh")
COMMANDS = {
    "convert": ["convert", SCRIPT, "--output", "OUT"],
    "to script": ["convert", "qwen3-8b-grpo", "--to", "script", "--output", "OUT"],
    "schema": ["schema", "--output", "OUT"],
    "rules": ["schema", "--rules", "--output", "OUT"],
    "page": ["schema", "--markdown", "--output", "OUT"],
}
PROGRAM = "from t1cli.cli.app import main; main()"
every_command = pytest.mark.parametrize("name", COMMANDS)


def t1(name: str, output: Path | str, *more: str) -> tuple[int, str, str]:
    words = [str(output) if word == "OUT" else word for word in COMMANDS[name]]
    result = CliRunner().invoke(app, [*words, *more])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


@every_command
def test_a_file_of_somebody_is_left_alone_and_its_own_is_replaced(name: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("my own notes\n")
    code, _, said = t1(name, mine)
    assert code == 2 and f"{mine} exists, and not as t1 wrote it" in said and mine.read_text() == "my own notes\n"
    fresh = tmp_path / "fresh"
    assert t1(name, fresh)[0] == 0
    text = fresh.read_text()
    assert t1(name, fresh)[0] == 0 and fresh.read_text() == text
    empty = tmp_path / "empty"
    empty.touch()
    assert t1(name, empty)[0] == 0 and empty.read_text() == text


@pytest.mark.parametrize("name", ["convert", "to script"])
def test_an_edited_output_of_convert_is_replaced_by_force_alone(name: str, tmp_path: Path) -> None:
    output = tmp_path / "output"
    t1(name, output)
    written = output.read_text()
    edited = written.replace("\n", "\n# checked by hand\n", 1)
    for text, replaced in ((edited, False), (written + "\n", False), (signed(edited, after=1), True)):
        output.write_text(text)
        code, _, said = t1(name, output)
        assert (code == 0) is replaced and (output.read_text() == written) is replaced
        assert replaced or "--force" in said
    output.write_text(edited)
    assert t1(name, output, "--force")[0] == 0 and output.read_text() == written


def test_an_older_output_of_the_same_command_may_be_replaced(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text(signed("# Read from an older script.\nname: x\n", after=1))
    assert is_unedited(output.read_text())
    assert t1("convert", output)[0] == 0 and "name: dense" in output.read_text()


@every_command
@pytest.mark.parametrize("stdout", ["/dev/stdout", "-"])
def test_stdout_may_be_named(name: str, stdout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "file"
    t1(name, file)
    code, answer, _ = t1(name, stdout)
    assert code == 0 and answer == file.read_text() and list(tmp_path.iterdir()) == [file]


def test_json_stays_one_object_when_stdout_is_named() -> None:
    code, answer, _ = t1("convert", "/dev/stdout", "--json")
    assert code == 0 and "name: dense" in json.loads(answer)["spec"]


@every_command
def test_a_pipe_is_written_to_and_never_read(name: str, tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    t1(name, file)
    words = [str(pipe) if word == "OUT" else word for word in COMMANDS[name]]
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    try:
        done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert reader.communicate(timeout=120)[0] == file.read_text()
    finally:
        reader.kill()
        reader.wait()


@pytest.mark.parametrize("command", ["check", "audit"])
def test_a_record_is_no_pipe_and_no_device(command: str, tmp_path: Path) -> None:
    (tmp_path / "pool" / "one").mkdir(parents=True)
    (tmp_path / "pool" / "one" / "task.toml").write_text("[agent\n")
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/null")):
        words = ["tasks", command, str(tmp_path / "pool"), "--record", str(place)]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2 and "a pipe or a device" in result.stderr and result.stdout == ""


def test_a_report_replaces_a_report_and_nothing_else(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "small" / "attempt_1"
    run.mkdir(parents=True)
    spec = load_experiment(Path("quickstart")).spec.model_dump(mode="json")
    (run / "spec.resolved.yaml").write_text(json.dumps(spec))
    (run / "metrics.jsonl").write_text('{"step": 0, "rollout/step": 0, "terminal/reward_mean": 0.5}\n')

    def report(output: Path | str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["report", str(run), "--output", str(output)])
        return result.exit_code, result.stdout

    page, mine = tmp_path / "page.html", tmp_path / "index.html"
    assert report(page)[0] == 0 and report(page)[0] == 0 and page.read_text().startswith("<!doctype html>")
    mine.write_text("<html>my own page</html>")
    assert report(mine)[0] == 2 and mine.read_text() == "<html>my own page</html>"
    page_alone = report("-")[1]
    assert page_alone.startswith("<!doctype html>") and page_alone.rstrip().endswith("</html>")
    two = CliRunner().invoke(app, ["report", str(run), "--output", "/dev/stdout", "--json"])
    assert two.exit_code == 2 and two.stdout == ""
