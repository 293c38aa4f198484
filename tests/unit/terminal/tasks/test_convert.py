"""terminal-bench's layout becomes Harbor's: whole or not at all, and what cannot be read is named with its place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.tasks.check_pool import PoolCheck, check_pool, task_directories
from t1cli.terminal.tasks.convert import convert_pool
from t1cli.terminal.tasks.load import load_pool


def older_task(path: Path) -> None:
    (path / "tests").mkdir(parents=True)
    (path / "task.yaml").write_text("instruction: |\n  Write one.\ndifficulty: easy\nmax_test_timeout_sec: 30\n")
    (path / "Dockerfile").write_text("FROM scratch\n")
    (path / "docker-compose.yaml").write_text("services:\n  client:\n    build: .\n")
    test = 'if [ "$(cat one)" = 1 ]; then echo "1 passed"; else echo "FAILED test_outputs.py::test_one"; fi\n'
    (path / "run-tests.sh").write_text(test)
    (path / "solution.sh").write_text("echo 1 > one\n")


def test_an_older_pool_is_converted_and_its_oracle_solves_it(tmp_path: Path) -> None:
    older_task(tmp_path / "old" / "write-one")
    (converted,) = convert_pool(tmp_path / "old", tmp_path / "new")
    assert converted.notes == ()
    (task,) = load_pool(tmp_path / "new")
    assert (task.instruction, task.difficulty, task.verifier_timeout_seconds) == ("Write one.\n", "easy", 30.0)

    async def checked() -> PoolCheck:
        provider = LocalProvider(LocalSandbox(), tmp_path / "scratch")
        try:
            return await check_pool(task_directories(tmp_path / "new"), provider)
        finally:
            await provider.close()

    (result,) = asyncio.run(checked()).tasks
    # Solved by its oracle and not by nothing; per-test results are what such a pool does not have.
    assert {problem.kind for problem in result.problems} == {"ctrf-missing"}
    with pytest.raises(BadInput, match="exists"):
        convert_pool(tmp_path / "old", tmp_path / "new")
    with pytest.raises(BadInput, match="is converted before it is used"):
        load_pool(tmp_path / "old", layout="terminal-bench")
    with pytest.raises(BadInput) as refused:
        task_directories(tmp_path / "old" / "write-one" / "tests")
    assert "no task" in str(refused.value)


def test_all_problems_of_an_older_pool_are_reported_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "old" / name).mkdir(parents=True)
        (tmp_path / "old" / name / "task.yaml").write_text("difficulty: easy\n")
    with pytest.raises(BadInput) as refused:
        convert_pool(tmp_path / "old", tmp_path / "new")
    assert len(refused.value.diagnostics) == 4 and not (tmp_path / "new").exists()


BROKEN: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "task.yaml in Latin-1": (
        lambda task: (task / "task.yaml").write_bytes(b"instruction: caf\xe9\n"), "task.yaml", "cannot be read",
    ),
    "task.yaml that is no YAML": (
        lambda task: (task / "task.yaml").write_text("instruction: x\na: [\n"), "task.yaml:3", "not YAML",
    ),
    "task.yaml nested without end": (
        lambda task: (task / "task.yaml").write_text("[" * 5000), "task.yaml", "not YAML",
    ),
    "a huge task.yaml": (
        lambda task: os.truncate(task / "task.yaml", 1 << 40), "task.yaml", "more than 1048576 bytes",
    ),
    "a list in docker-compose.yaml": (
        lambda task: (task / "docker-compose.yaml").write_text("- a\n"), "docker-compose.yaml", "list at the top",
    ),
    "services that are none": (
        lambda task: (task / "docker-compose.yaml").write_text("services: 3\n"), "docker-compose.yaml", "services is",
    ),
    "broken docker-compose.yaml": (
        lambda task: (task / "docker-compose.yaml").write_text("{"), "docker-compose.yaml:", "not YAML",
    ),
    "a mapping in solution.yaml": (
        lambda task: (task / "solution.yaml").write_text("command: x\n"), "solution.yaml", "dict at the top",
    ),
    "tests beside the pool": (
        lambda task: (task / "tests" / "secret").symlink_to("/etc/hostname"), "tests/secret", "leads out of the task",
    ),
    "a link to itself": (
        lambda task: (task / "tests" / "loop").symlink_to("loop"), "tests/loop", "a link that leads nowhere",
    ),
    "a link to a directory above": (
        lambda task: (task / "tests" / "up").symlink_to(".."), "tests/up", "a link to a directory",
    ),
    "a pipe": (lambda task: os.mkfifo(task / "pipe"), "pipe", "a pipe, socket or device"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_what_cannot_be_read_is_named_before_anything_is_written(kind: str, tmp_path: Path) -> None:
    damage, where, said = BROKEN[kind]
    older_task(tmp_path / "old" / "good")
    older_task(tmp_path / "old" / "bad")
    damage(tmp_path / "old" / "bad")
    with pytest.raises(BadInput) as refused:
        convert_pool(tmp_path / "old", tmp_path / "new")
    (problem,) = refused.value.diagnostics
    assert f"bad/{where}" in problem.where and said in problem.message, problem
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["old"]


def test_what_fails_while_it_is_written_leaves_nothing_that_a_next_try_meets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        older_task(tmp_path / "old" / name)
    really = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if "/b/" in str(path):
            raise OSError(28, "No space left on device", str(path))
        return really(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        convert_pool(tmp_path / "old", tmp_path / "new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["old"]
    monkeypatch.undo()
    assert len(convert_pool(tmp_path / "old", tmp_path / "new")) == 2


def test_files_come_with_their_modes_and_links_within_the_task_become_files(tmp_path: Path) -> None:
    task = tmp_path / "old" / "one"
    older_task(task)
    (task / "deep" / "er").mkdir(parents=True)
    (task / "deep" / "er" / "tool.sh").write_text("echo\n")
    (task / "deep" / "er" / "tool.sh").chmod(0o755)
    (task / "tests" / "tool.sh").symlink_to("../deep/er/tool.sh")
    (task / "solution.sh").unlink()
    (task / "solution.yaml").write_text('- command: echo 1 > one\n- other: x\n- command: "half \\ud800"\n')
    (task / "task.yaml").write_text("instruction: x\ntags: [a, {b: c}]\ndifficulty: [1]\nmax_test_timeout_sec: 1e999\n")
    (converted,) = convert_pool(tmp_path / "old", tmp_path / "new")
    assert "typed its commands" in converted.notes[0]
    new = tmp_path / "new" / "one"
    for copy in (new / "environment/deep/er/tool.sh", new / "tests/tool.sh"):
        assert copy.read_text() == "echo\n" and copy.stat().st_mode & 0o111 and not copy.is_symlink()
    assert (new / "solution/solve.sh").read_text() == "#!/bin/sh\necho 1 > one\nhalf ?\n"
    (found,) = load_pool(tmp_path / "new")
    assert (found.difficulty, found.verifier_timeout_seconds) == ("unknown", 60.0)
