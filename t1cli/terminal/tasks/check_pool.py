"""Checking a whole pool: every task read, run solved, untouched and emptied, with progress on disk for a resume."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.terminal.sandbox.sandbox import SandboxProvider
from t1cli.terminal.tasks.load import load_task
from t1cli.terminal.tasks.record_place import require_place
from t1cli.terminal.tasks.static_check import Problem, static_problems
from t1cli.terminal.tasks.vet import VetResult, vet


@dataclass(frozen=True)
class TaskCheck:
    """What is known of one task afterwards."""

    name: str
    digest: str
    """Of the task's files; a changed task is checked again."""
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


@dataclass(frozen=True)
class PoolCheck:
    """What is known of a pool."""

    tasks: tuple[TaskCheck, ...]
    resumed: int
    """Tasks whose earlier result still holds."""

    @property
    def good(self) -> int:
        return sum(task.ok for task in self.tasks)

    def by_kind(self) -> dict[str, int]:
        """Tasks with at least one problem of a kind."""
        return dict(sorted(Counter(kind for task in self.tasks for kind in {p.kind for p in task.problems}).items()))

    def spread(self, value: Callable[[TaskCheck], float | None]) -> dict[str, float]:
        """Median, 90th percentile and maximum over the tasks that have the value."""
        return spread_of([number for task in self.tasks if (number := value(task))])

    @property
    def suggested_scale(self) -> float | None:
        """S of `ctrf_count`: about the 90th percentile of tests per task."""
        return self.spread(lambda task: task.tests).get("p90")


def spread_of(numbers: Sequence[float]) -> dict[str, float]:
    """Median, 90th percentile and maximum; empty without numbers."""
    found = sorted(numbers)
    if not found:
        return {}
    ninth = found[min(len(found) - 1, round(0.9 * (len(found) - 1)))]
    return {"p50": float(statistics.median(found)), "p90": float(ninth), "max": float(found[-1])}


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
        digest = await asyncio.to_thread(digest_of, directory)
        before = known.get(directory.name)
        if before is not None and before.digest == digest:
            resumed += 1
            return before
        async with places:
            result = await check_task(directory, digest, provider)
        if record is not None:
            with record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
        if seen is not None:
            seen(result)
        return result

    return PoolCheck(tuple(await asyncio.gather(*(one(directory) for directory in directories))), resumed)


async def check_task(directory: Path, digest: str, provider: SandboxProvider) -> TaskCheck:
    """One task: layout, verifier as text, then really run. Never raises for a bad task."""
    try:
        task = load_task(directory)
    except BadInput as error:
        return TaskCheck(
            directory.name, digest, tuple(Problem("layout", f"{d.where}: {d.message}") for d in error.diagnostics)
        )
    problems = list(static_problems(task.tests / "test.sh", network=False))
    if not (task.solution / "solve.sh").is_file():
        problems.append(Problem("no-oracle", "solution/solve.sh is missing: nobody knows whether it can be solved"))
    if any(problem.kind in ("no-oracle", "verifier-online") for problem in problems):
        # Running it would show the same again, after its whole time limit.
        return TaskCheck(task.name, digest, tuple(problems), agent_seconds=task.agent_timeout_seconds)
    result = await vet(task, provider)
    kinds = {problem.kind for problem in problems}
    problems += [problem for problem in map(_classified, result.problems) if problem.kind not in kinds]
    return TaskCheck(
        task.name,
        digest,
        tuple(problems),
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


def digest_of(directory: Path) -> str:
    """Of the names, modes and bytes of a task's files; links by where they lead."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(directory)}\0{path.is_symlink()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


_KINDS = (
    ("verifier_timeout", "verifier-timeout"),
    ("reward_missing", "reward-missing"),
    ("reward_unreadable", "reward-missing"),
    ("tests_tampered", "tests-tampered"),
    ("solve.sh ended", "oracle-fails"),
    ("not solved", "oracle-fails"),
    ("CTRF report is missing", "ctrf-missing"),
    ("CTRF report is empty", "ctrf-empty"),
    ("CTRF report is stale", "ctrf-stale"),
    ("CTRF report is corrupt", "ctrf-corrupt"),
    ("CTRF report is disagree", "ctrf-disagrees"),
    ("expected", "test-count"),
    ("doing nothing", "no-op-full"),
    ("empty working directory", "empty-full"),
)


def _classified(message: str) -> Problem:
    kind = next((kind for text, kind in _KINDS if text in message), "other")
    return Problem(kind, message)


def _seconds(result: VetResult) -> float:
    return max((verdict.seconds for verdict in (result.oracle, result.no_op, result.emptied) if verdict), default=0.0)


def read_record(record: Path) -> dict[str, TaskCheck]:
    """Results of an earlier check by task name; lines that are cut off or of another form are passed over."""
    found: dict[str, TaskCheck] = {}
    for line in record.read_text(encoding="utf-8").splitlines() if record.exists() else ():
        try:
            content: dict[str, Any] = json.loads(line)
            if "emptied_passed" not in content:  # by a t1 that did not empty directories: run again
                continue
            problems = tuple(Problem(**problem) for problem in content.pop("problems"))
            result = TaskCheck(problems=problems, **content)
        except (ValueError, TypeError, KeyError):
            continue
        found[result.name] = result
    return found
