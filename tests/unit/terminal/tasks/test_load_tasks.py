"""Harbor directories: read in full, or refused with every problem at its place."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import BadInput, Diagnostic
from t1cli.terminal.tasks import load
from t1cli.terminal.tasks.generator import generate, write_harbor
from t1cli.terminal.tasks.load import load_pool, load_task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_harbor(generate("select", 2, random.Random(5)), tmp_path)


def problems(call: Callable[[], object]) -> tuple[Diagnostic, ...]:
    with pytest.raises(BadInput) as error:
        call()
    return error.value.diagnostics


def test_a_generated_task_is_read(path: Path) -> None:
    task = load_task(path)
    made = generate("select", 2, random.Random(5))
    assert (task.name, task.family, task.difficulty) == (made.name, "select", "2")
    assert task.instruction == made.instruction
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (60.0, 60.0)
    assert task.expected_tests == len(made.checks)
    assert task.environment is not None
    files = {file.name: file.read_text() for file in task.environment.iterdir()}
    assert files == made.setup_files
    assert (task.tests / "test.sh").stat().st_mode & 0o111 and (task.solution / "solve.sh").exists()


def test_what_is_left_out_gets_harbors_defaults(path: Path) -> None:
    (path / "task.toml").write_text('version = "1.0"\n[metadata]\ncategory = "files"\n')
    task = load_task(path)
    assert (task.family, task.difficulty, task.expected_tests) == ("files", "unknown", None)
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (None, 600.0)


def test_every_problem_comes_at_once_with_file_and_line(path: Path) -> None:
    (path / "task.toml").write_text(
        '[metadata]\nexpected_tests = 0\n[agent]\ntimeout_sec = "soon"\n[verifier]\n\ntimeout_sec = -1\n'
    )
    (path / "instruction.md").write_text("  \n")
    (path / "tests" / "test.sh").unlink()
    (path / "tests" / "out").symlink_to("/etc")
    found = problems(lambda: load_task(path))
    places = {(Path(one.where.rpartition(":")[0] or one.where).name, one.where.rpartition(":")[2]) for one in found}
    assert {("task.toml", "2"), ("task.toml", "4"), ("task.toml", "7")} <= places
    text = " | ".join(one.message for one in found)
    for part in (
        "expected_tests is 0",
        "'soon'",
        "-1",
        "empty instruction",
        "test.sh is missing",
        "leads out of the task",
    ):
        assert part in text
    assert "expected_tests = 0" in {one.source_line for one in found}


def test_broken_toml_names_its_line(path: Path) -> None:
    (path / "task.toml").write_text('version = "1.0"\n[agent\n')
    (found,) = problems(lambda: load_task(path))
    assert found.where.endswith("task.toml:2") and found.source_line == "[agent"


def test_a_task_that_reaches_outside_is_refused(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (path / "instruction.md").unlink()
    (path / "instruction.md").symlink_to(secret)
    assert "leads out" in problems(lambda: load_task(path))[0].message


def test_size_limits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_FILES_BYTES", 10)
    (path / "instruction.md").write_text("x" * (load.MAX_INSTRUCTION_BYTES + 1))
    text = " | ".join(f"{one.message} {one.hint}" for one in problems(lambda: load_task(path)))
    assert f"at most {load.MAX_INSTRUCTION_BYTES}" in text and "at most 2000 files and 10 bytes" in text


def test_a_task_of_several_steps_is_refused_not_misread(path: Path) -> None:
    (path / "instruction.md").unlink()
    (path / "steps" / "one").mkdir(parents=True)
    assert any("several steps" in one.message for one in problems(lambda: load_task(path)))


def test_pools(tmp_path: Path) -> None:
    for number, family in enumerate(("write", "append", "write")):
        write_harbor(generate(family, 1, random.Random(number)), tmp_path)
    (tmp_path / "README.md").write_text("not a task")
    assert [task.family for task in load_pool(tmp_path)] == ["append", "write", "write"]
    assert {task.family for task in load_pool(tmp_path, families=("write",))} == {"write"}
    assert "no task of family fly" in problems(lambda: load_pool(tmp_path, families=("fly",)))[0].message
    assert "is converted before it is used" in problems(lambda: load_pool(tmp_path, layout="terminal-bench"))[0].message
    assert "is no directory" in problems(lambda: load_pool(tmp_path / "none"))[0].message
    broken = [task.path for task in load_pool(tmp_path)][:2]
    for path in broken:
        (path / "task.toml").write_text("[")
    assert len(problems(lambda: load_pool(tmp_path))) == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no task in" in problems(lambda: load_pool(empty))[0].message
