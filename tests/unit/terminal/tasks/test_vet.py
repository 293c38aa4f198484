"""Vetting really runs tasks: all of the shipped pool pass, and each way of being broken is named."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.sandbox.sandbox import Sandbox, SandboxError
from t1cli.terminal.tasks.generator import generate, write_harbor
from t1cli.terminal.tasks.load import load_pool, load_task
from t1cli.terminal.tasks.vet import VetResult, vet, vet_all

POOL = Path(__file__).parents[4] / "experiments" / "quickstart" / "tasks"


def test_the_oracle_passes_every_check_of_every_shipped_task_and_nothing_else_does(tmp_path: Path) -> None:
    tasks = load_pool(POOL)
    assert len(tasks) >= 60

    async def whole() -> tuple[VetResult, ...]:
        provider = LocalProvider(LocalSandbox(), tmp_path)
        try:
            return await vet_all(tasks, provider)
        finally:
            await provider.close()

    results = asyncio.run(whole())
    assert [result.problems for result in results if not result.ok] == []
    for task, result in zip(tasks, results, strict=True):
        assert result.has_ctrf and result.oracle is not None and result.no_op is not None
        assert result.oracle.passed == result.oracle.total == task.expected_tests
        assert result.no_op.passed < result.oracle.passed
        assert result.emptied is not None and result.emptied.passed < result.oracle.passed


def no_solution(path: Path) -> None:
    (path / "solution" / "solve.sh").write_text("#!/bin/sh\n")


def failing_solution(path: Path) -> None:
    (path / "solution" / "solve.sh").write_text("#!/bin/sh\necho because\nexit 4\n")


def silent_solution(path: Path) -> None:
    (path / "solution" / "solve.sh").write_text("#!/bin/sh\nset -e\nfalse\n")


def wrong_solution(path: Path) -> None:
    (path / "tests" / "test_outputs.py").write_text("def test_order():\n    assert False, 'b before a'\n")


def checks_nothing(path: Path) -> None:
    (path / "tests" / "test_outputs.py").write_text("def test_nothing():\n    pass\n")


def broken_import(path: Path) -> None:
    (path / "tests" / "test_outputs.py").write_text("import nothing_of_that_name\n")


def asks_for_no_file(path: Path) -> None:
    """What the agent is to delete is all that is looked at: right after deleting everything, too."""
    (path / "environment/files").mkdir(parents=True, exist_ok=True)
    (path / "environment/files/old.txt").write_text("old\n")
    (path / "solution/solve.sh").write_text("#!/bin/sh\nrm old.txt\n")
    gone = "not os.path.exists(os.environ.get('T1_ROOT', '') + '/work/old.txt')"
    (path / "tests/test_outputs.py").write_text(f"import os\ndef test_gone(): assert {gone}\n")


def no_report(path: Path) -> None:
    logs = "${T1_ROOT:-}/logs/verifier"
    (path / "tests" / "test.sh").write_text(f'#!/bin/sh\ntest -s ../work/*.txt; echo 1 > "{logs}/reward.txt"\n')


@pytest.mark.parametrize(
    ("damage", "messages"),
    [
        (no_solution, ("oracle: the verifier says it is not solved (0 of 1",)),
        (failing_solution, ("oracle: solve.sh ended with 4: because",)),
        (silent_solution, ("oracle: solve.sh ended with 1: it printed nothing",)),
        (wrong_solution, ("(0 of 1 tests passed; failed: test_order (AssertionError: b before a))",)),
        (checks_nothing, ("no-op: doing nothing solves it",)),
        (broken_import, ("oracle: reward_missing", "no-op: reward_missing")),
        (asks_for_no_file, ("empty: an empty working directory solves it",)),
        (no_report, ("oracle: the CTRF report is missing", "no-op: doing nothing solves it")),
    ],
)
def test_a_broken_task_is_named_and_never_raises(
    damage: Callable[[Path], None], messages: tuple[str, ...], tmp_path: Path
) -> None:
    path = write_harbor(generate("write", 1, random.Random(1)), tmp_path / "pool")
    damage(path)

    async def whole() -> VetResult:
        provider = LocalProvider(LocalSandbox(), tmp_path / "sandboxes")
        try:
            return await vet(load_task(path), provider)
        finally:
            await provider.close()

    result = asyncio.run(whole())
    assert not result.ok
    assert len(result.problems) == len(messages)
    for message in messages:
        assert any(message in problem.message for problem in result.problems), result.problems


class Losing:
    """Sandboxes of which the first `losses` are lost at their first command."""

    def __init__(self, inner: LocalProvider, losses: int, *, refuses: bool = False) -> None:
        self.inner, self.losses, self.refuses, self.made = inner, losses, refuses, 0

    async def create(self, name: str, *, owner: str) -> Sandbox:
        self.made += 1
        if self.refuses:
            raise SandboxError("the machine has no room")
        sandbox = await self.inner.create(name, owner=owner)
        if self.made <= self.losses:
            await sandbox.close()
        return sandbox

    async def sweep(self, owner: str) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        await self.inner.close()


def vetted(path: Path, scratch: Path, **how: Any) -> tuple[VetResult, int]:
    """What vetting a task says, and how many sandboxes it took."""

    async def whole() -> tuple[VetResult, int]:
        provider = Losing(LocalProvider(LocalSandbox(backend="process"), scratch), **how)
        try:
            return await vet(load_task(path), provider), provider.made
        finally:
            await provider.close()

    return asyncio.run(whole())


def test_a_sandbox_that_is_lost_once_is_made_again_and_twice_says_nothing_of_the_task(tmp_path: Path) -> None:
    path = write_harbor(generate("write", 1, random.Random(1)), tmp_path / "pool")
    once, made = vetted(path, tmp_path / "a", losses=1)
    assert (once.problems, once.unknown) == ((), "") and made in (3, 4)
    twice, _ = vetted(path, tmp_path / "b", losses=2)
    assert [problem.kind for problem in twice.problems] == ["sandbox-lost"] and "oracle: sandbox lost" in twice.unknown
    none, _ = vetted(path, tmp_path / "c", losses=0, refuses=True)
    assert {problem.kind for problem in none.problems} == {"no-sandbox"} and "no room" in none.unknown


def test_what_a_solution_prints_does_not_choose_the_kind_of_its_problem(tmp_path: Path) -> None:
    path = write_harbor(generate("write", 1, random.Random(1)), tmp_path / "pool")
    (path / "solution" / "solve.sh").write_text("#!/bin/sh\necho verifier_timeout: no sandbox: 3 expected\nexit 4\n")
    result, _ = vetted(path, tmp_path / "a", losses=0)
    assert [problem.kind for problem in result.problems] == ["oracle-fails"] and not result.unknown
