"""A pool with a dozen kinds of broken task among good ones: each is found, and called what it is."""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from t1cli.errors import BadInput
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.sandbox.sandbox import Sandbox, SandboxError, SandboxProvider
from t1cli.terminal.tasks.check_pool import PoolCheck, TaskCheck, check_pool, check_task, task_directories
from t1cli.terminal.tasks.static_check import static_problems

from .broken_tasks import BROKEN, break_task, edit

TASKS = Path(__file__).parents[4] / "experiments/quickstart/tasks"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One good task's copies, each broken in one way, and three good ones."""
    path = tmp_path_factory.mktemp("pool")
    sources = sorted(entry for entry in TASKS.iterdir() if entry.is_dir())
    for number in range(3):
        shutil.copytree(sources[number], path / f"good-{number}")
    for name in BROKEN:
        shutil.copytree(sources[0], path / name)
        break_task(path / name, name)
    return path


def checked(
    pool: Path,
    scratch: Path,
    record: Path | None = None,
    *,
    at_once: int | None = None,
    wrap: Callable[[LocalProvider], SandboxProvider] = lambda inner: inner,
) -> PoolCheck:
    async def whole() -> PoolCheck:
        provider = wrap(LocalProvider(LocalSandbox(), scratch))
        try:
            return await check_pool(task_directories(pool), provider, record=record, at_once=at_once)
        finally:
            await provider.close()

    return asyncio.run(whole())


@pytest.fixture(scope="module")
def found(pool: Path, tmp_path_factory: pytest.TempPathFactory) -> PoolCheck:
    return checked(pool, tmp_path_factory.mktemp("scratch"), pool.parent / "record.jsonl")


@pytest.mark.parametrize("name", BROKEN)
def test_each_kind_of_broken_task_is_named(name: str, found: PoolCheck) -> None:
    task = next(task for task in found.tasks if task.name == name)
    assert not task.ok and BROKEN[name][0] in {problem.kind for problem in task.problems}, task.problems


@pytest.mark.catalogue("R1")
def test_good_tasks_are_good_and_the_pool_is_measured(found: PoolCheck) -> None:
    assert found.good == 3 and {task.name for task in found.tasks if task.ok} == {"good-0", "good-1", "good-2"}
    assert found.suggested_scale and found.spread(lambda task: task.verify_seconds)["max"] > 0


def test_a_second_look_runs_only_what_has_changed(pool: Path, found: PoolCheck, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    shutil.copyfile(pool.parent / "record.jsonl", record)
    lines = record.read_text().splitlines(keepends=True)
    # One of an older t1, which knew of no emptied directory.
    older = next(line for line in lines if '"good-0"' in line)
    without = {key: value for key, value in json.loads(older).items() if key != "emptied_passed"}
    lines[lines.index(older)] = json.dumps(without) + "\n"
    record.write_text("".join(lines) + '{"name": "cut off')
    edit("instruction.md", lambda text: text + "again\n")(pool / "good-1")
    again = checked(pool, tmp_path / "scratch", record)
    assert again.resumed == len(BROKEN) + 1 and again.good == 3


class NoRoom:
    """No sandbox for tasks of one name while `full`; real ones for all others."""

    def __init__(self, inner: LocalProvider, name: str, *, full: bool) -> None:
        self.inner, self.name, self.full = inner, name, full

    async def create(self, name: str, *, owner: str) -> Sandbox:
        if self.full and self.name in name:
            raise SandboxError("the machine has no room")
        return await self.inner.create(name, owner=owner)

    async def sweep(self, owner: str) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        await self.inner.close()


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for number, source in enumerate(sorted(TASKS.iterdir())[:2]):
        shutil.copytree(source, tmp_path / "two" / f"task-{number}")
    return tmp_path / "two"


def test_a_task_without_a_sandbox_is_not_known_not_recorded_and_run_by_the_next_check(two: Path) -> None:
    record = two.parent / "record.jsonl"

    def check(*, full: bool) -> PoolCheck:
        return checked(two, two.parent / "scratch", record, wrap=lambda inner: NoRoom(inner, "task-1", full=full))

    first = check(full=True)
    assert (first.good, first.unknown, first.resumed) == (1, 1, 0)
    assert first.by_kind() == {"no-sandbox": 1} and not first.tasks[1].ok
    assert [json.loads(line)["name"] for line in record.read_text().splitlines()] == ["task-0"]
    # An older t1 recorded it as the task's own fault.
    lost = {**asdict(first.tasks[1]), "problems": [{"kind": "other", "message": "oracle: no sandbox", "fatal": True}]}
    record.write_text(record.read_text() + json.dumps(lost) + "\n")
    second = check(full=False)
    assert (second.good, second.unknown, second.resumed) == (2, 0, 1)


def test_a_task_beyond_all_limits_is_refused_before_it_is_read(two: Path) -> None:
    with (two / "task-0" / "tests" / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    found = checked(two, two.parent / "scratch")
    assert [problem.kind for problem in found.tasks[0].problems] == ["layout"] and found.tasks[1].ok
    assert "tests: at least" in found.tasks[0].problems[0].message


def test_a_task_that_cannot_be_read_is_named_and_the_others_are_checked(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt = two / "task-0" / "tests" / "test.sh"
    really = Path.open

    def unreadable(path: Path, *arguments: Any, **named: Any) -> Any:
        if path == spoilt:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", unreadable)
    found = checked(two, two.parent / "scratch", two.parent / "record.jsonl")
    (problem,) = found.tasks[0].problems
    assert (problem.kind, problem.message) == ("layout", f"{spoilt}: cannot be read: Permission denied")
    assert found.tasks[1].ok and found.unknown == 0


def test_at_most_as_many_tasks_are_read_as_are_checked_side_by_side(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading: list[Path] = []

    def digest(directory: Path) -> str:
        reading.append(directory)
        assert len(reading) == 1
        raise BadInput("refused", where=str(directory))

    async def seen_once(directory: Path, *arguments: Any) -> TaskCheck:
        try:
            return await check_task(directory, *arguments)
        finally:
            reading.remove(directory)

    monkeypatch.setattr("t1cli.terminal.tasks.check_pool.digest_of", digest)
    monkeypatch.setattr("t1cli.terminal.tasks.check_pool.check_task", seen_once)
    found = checked(two, two.parent / "scratch", at_once=1)
    assert found.by_kind() == {"layout": 2}


@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        ("mkdir -p /logs/verifier\npytest x\necho $? > /logs/verifier/reward.txt\n", set()),
        ("mkdir -p /l\nset -e\nif pytest x; then echo 1 > reward.txt; fi\n", set()),
        ("mkdir -p /l\nset -e\npytest x || code=1\necho 1 > reward.txt\n", set()),
        ("mkdir -p /l\nset -e\ntrap finish EXIT\npytest x\necho 1 > reward.txt\n", set()),
        ("mkdir -p /l\nset -euo pipefail\npytest x\necho 1 > reward.txt\n", {"reward-line"}),
        ("mkdir -p /l\npytest x\n", {"reward-line"}),
        ("mkdir -p /l\n# curl is not called\npytest x\necho 1 > reward.txt\n", set()),
        ("mkdir -p /l\nuvx pytest x\necho 1 > reward.txt\n", {"verifier-online"}),
        ("pytest x\necho 1 > reward.txt\n", {"log-directory"}),
    ],
)
def test_a_script_is_judged_by_its_text(script: str, kinds: set[str], tmp_path: Path) -> None:
    (tmp_path / "test.sh").write_text(script)
    assert {problem.kind for problem in static_problems(tmp_path / "test.sh", network=False)} == kinds


def test_the_command_answers_with_an_exit_code_and_one_object(pool: Path, found: PoolCheck) -> None:
    from typer.testing import CliRunner

    from t1cli.cli.app import app

    record = pool.parent / "record.jsonl"
    answer = CliRunner().invoke(app, ["tasks", "check", str(pool), "--json", "--record", str(record)])
    content = json.loads(answer.stdout)
    assert answer.exit_code == 1 and content["good"] == 3 and content["tasks"] == len(BROKEN) + 3


def test_a_check_whose_sandboxes_failed_could_not_ask(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from t1cli.cli.app import app

    monkeypatch.setattr(
        "t1cli.terminal.sandbox.local.local_provider",
        lambda spec, scratch: NoRoom(LocalProvider(spec, scratch), "task-1", full=True),
    )
    answer = CliRunner().invoke(app, ["tasks", "check", str(two), "--json"])
    content = json.loads(answer.stdout)
    assert answer.exit_code == 3 and (content["good"], content["unknown"]) == (1, 1)
    assert {one["name"]: one["ok"] for one in content["results"]} == {"task-0": True, "task-1": None}
    assert "not known of 1 tasks, whose sandboxes failed: --record FILE" in answer.stderr
