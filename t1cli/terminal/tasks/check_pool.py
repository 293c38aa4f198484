"""Checking a whole pool: every task read, run solved, untouched and emptied, with progress on disk for a resume."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.records import append_line, read_lines
from t1cli.spec.reward_scale import ninetieth
from t1cli.terminal.sandbox.sandbox import SandboxProvider
from t1cli.terminal.side_by_side import side_by_side
from t1cli.terminal.tasks.digest import digest_of
from t1cli.terminal.tasks.load import load_task
from t1cli.terminal.tasks.problem import Problem
from t1cli.terminal.tasks.record_place import require_place
from t1cli.terminal.tasks.static_check import static_problems
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.tasks.vet import VetResult, vet


@dataclass(frozen=True)
class TaskCheck:
    """What is known of one task afterwards."""

    name: str
    digest: str
    """Of the task's files; a changed task is checked again. Empty where they cannot be read."""
    problems: tuple[Problem, ...]
    tests: int = 0
    """Tests that the oracle's run reports."""
    no_op_passed: int = 0
    emptied_passed: int = 0
    """Tests that pass in an empty working directory."""
    verify_seconds: float = 0.0
    agent_seconds: float | None = None
    """The budget that the task declares."""

    @property
    def ok(self) -> bool:
        return not any(problem.fatal for problem in self.problems)

    @property
    def known(self) -> bool:
        """Whether the task could be run; what failed around it says nothing of it."""
        return not any(problem.of_machinery for problem in self.problems)


@dataclass(frozen=True)
class PoolCheck:
    """What is known of a pool."""

    tasks: tuple[TaskCheck, ...]
    resumed: int
    """Tasks whose earlier result still holds."""

    @property
    def good(self) -> int:
        return sum(task.ok for task in self.tasks)

    @property
    def unknown(self) -> int:
        """Tasks that nothing is known of: they are not recorded, and a resume runs them."""
        return sum(not task.known for task in self.tasks)

    def by_kind(self) -> dict[str, int]:
        """Tasks with at least one problem of a kind."""
        return dict(sorted(Counter(kind for task in self.tasks for kind in {p.kind for p in task.problems}).items()))

    def spread(self, value: Callable[[TaskCheck], float | None]) -> dict[str, float]:
        """Median, 90th percentile and maximum over the tasks that have the value."""
        return spread_of([number for task in self.tasks if task.known and (number := value(task))])

    @property
    def suggested_scale(self) -> float | None:
        """S of `ctrf_count`: about the 90th percentile of tests per task."""
        return self.spread(lambda task: task.tests).get("p90")


def spread_of(numbers: Sequence[float]) -> dict[str, float]:
    """Median, 90th percentile and maximum; empty without numbers."""
    if not numbers:
        return {}
    return {"p50": float(statistics.median(numbers)), "p90": ninetieth(numbers), "max": float(max(numbers))}


async def check_pool(
    directories: Sequence[Path],
    provider: SandboxProvider,
    *,
    record: Path | None = None,
    at_once: int | None = None,
    seen: Callable[[TaskCheck], None] | None = None,
) -> PoolCheck:
    """Check every task directory, `at_once` side by side (null: as many as cores); `record` makes it resumable.

    Raises BadInput, before anything is run, for a record that cannot be written.
    """
    if record is not None:
        require_place(record)
    known = read_record(record) if record is not None else {}
    places = asyncio.Semaphore(at_once or os.cpu_count() or 1)
    resumed = 0

    async def one(directory: Path) -> TaskCheck:
        nonlocal resumed
        before = known.get(directory.name)
        async with places:
            result = await check_task(directory, provider, before)
        if result is before:
            resumed += 1
            return result
        if record is not None and result.known and result.digest:
            append_line(record, asdict(result))
        if seen is not None:
            seen(result)
        return result

    checked = await side_by_side(one(directory) for directory in directories)
    return PoolCheck(checked, resumed)


async def check_task(directory: Path, provider: SandboxProvider, before: TaskCheck | None = None) -> TaskCheck:
    """One task: layout, verifier as text, then really run; `before` where it still holds. A bad task never raises."""
    digest = ""
    try:
        digest = await asyncio.to_thread(digest_of, directory)
        if before is not None and before.digest == digest:
            return before
        task = load_task(directory)
    except BadInput as error:
        return TaskCheck(directory.name, digest, tuple(_layout(d.where, d.message) for d in error.diagnostics))
    except OSError as error:
        return TaskCheck(
            directory.name, "", (_layout(error.filename or directory, f"cannot be read: {error.strerror}"),)
        )
    problems = list(static_problems(task.tests / "test.sh", network=False))
    if not (task.solution / "solve.sh").is_file():
        problems.append(Problem("no-oracle", "solution/solve.sh is missing: nobody knows whether it can be solved"))
    if any(problem.kind in ("no-oracle", "verifier-online") for problem in problems):
        # Running it would show the same again, after its whole time limit.
        return TaskCheck(task.name, digest, tuple(problems), agent_seconds=task.agent_timeout_seconds)
    return await _run(task, digest, problems, provider)


async def _run(task: Task, digest: str, seen: Sequence[Problem], provider: SandboxProvider) -> TaskCheck:
    """What running the task adds to what has been seen of it."""
    result = await vet(task, provider)
    kinds = {problem.kind for problem in seen}
    return TaskCheck(
        task.name,
        digest,
        (*seen, *(problem for problem in result.problems if problem.kind not in kinds)),
        tests=result.oracle.total if result.oracle else 0,
        no_op_passed=result.no_op.passed if result.no_op else 0,
        emptied_passed=result.emptied.passed if result.emptied else 0,
        verify_seconds=_seconds(result),
        agent_seconds=task.agent_timeout_seconds,
    )


def task_directories(path: Path) -> tuple[Path, ...]:
    """Every directory below a pool that means to be a task, in Harbor's layout. Raises BadInput for none."""
    marks = ("task.toml", "instruction.md", "tests")
    entries = sorted(path.iterdir()) if path.is_dir() else []
    found = tuple(entry for entry in entries if entry.is_dir() and any((entry / mark).exists() for mark in marks))
    if not found:
        older = any((entry / "task.yaml").exists() for entry in entries)
        hint = f"t1 tasks convert {path} OUT" if older else "each task is a directory with a task.toml"
        raise BadInput(f"no task in {path}", where=str(path), hint=hint)
    return found


def _layout(where: object, message: str) -> Problem:
    return Problem("layout", f"{where}: {message}")


def _seconds(result: VetResult) -> float:
    return max((verdict.seconds for verdict in (result.oracle, result.no_op, result.emptied) if verdict), default=0.0)


_OLD_REST = "other"
"""Where an older t1 put a task whose sandbox had failed: run again."""


def read_record(record: Path) -> dict[str, TaskCheck]:
    """Results of an earlier check by task name; lines that are cut off or of another form are passed over."""
    found: dict[str, TaskCheck] = {}
    for content in read_lines(record):
        try:
            if "emptied_passed" not in content:  # by a t1 that did not empty directories: run again
                continue
            problems = tuple(Problem(**problem) for problem in content.pop("problems"))
            if any(problem.kind == _OLD_REST for problem in problems):
                continue
            result = TaskCheck(problems=problems, **content)
        except (TypeError, KeyError):
            continue
        found[result.name] = result
    return found
