"""Vetting a task by really running it: its oracle must pass every test; doing nothing, or deleting all, must not."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from t1cli.terminal.rewards.failed_tests import failed_tests, named
from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.printed import after_colon
from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.sandbox.sandbox import Placement, QueuedProvider, Sandbox, SandboxError, SandboxProvider
from t1cli.terminal.side_by_side import side_by_side
from t1cli.terminal.tasks.problem import Problem
from t1cli.terminal.tasks.task import Task

OWNER = "vet"
"""Of the sandboxes of all runs here."""

_SOLVE_SECONDS = 120.0

_CAUSES: Final = {
    "verifier_timeout": "verifier-timeout",
    "reward_missing": "reward-missing",
    "reward_unreadable": "reward-missing",
    "tests_tampered": "tests-tampered",
    "test_script_missing": "layout",
}
"""Why grading failed by the task's own doing -> the kind of problem; any other cause is the machinery's."""

Start = Literal["oracle", "no-op", "empty"]


@dataclass(frozen=True)
class VetResult:
    """What the runs of a task showed."""

    task: str
    oracle: Verdict | None
    """After the task's own solution; None when it could not be graded."""
    no_op: Verdict | None
    """After doing nothing."""
    emptied: Verdict | None = None
    """In an empty working directory; the no-op's verdict where the task brings no files. None: nothing was scored."""
    problems: tuple[Problem, ...] = ()
    """Why the task must not be trained on; empty when it may."""

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def has_ctrf(self) -> bool:
        """Whether the oracle's run wrote a fresh report whose tests can be counted."""
        return self.oracle is not None and self.oracle.ctrf == "ok"

    @property
    def unknown(self) -> str:
        """What kept a run from being made or graded, and is not the task's doing; empty when all is known."""
        return next((problem.message for problem in self.problems if problem.of_machinery), "")


async def vet(task: Task, provider: SandboxProvider, *, reports: bool = True) -> VetResult:
    """Grade the task after its solution, after nothing and without its files, each in a sandbox of its own.

    A bad task never raises. Without `reports`, what is wrong with its per-test report is no problem.
    """
    oracle = await _run(task, provider, "oracle")
    no_op = await _run(task, provider, "no-op")
    problems = [*oracle.problems, *no_op.problems]
    problems += _oracle_problems(task, oracle.verdict, oracle.failed, reports) if oracle.verdict else []
    problems += _full_score(no_op.verdict, "no-op-full", "no-op: doing nothing") if no_op.verdict else []
    emptied, empty_problems = await _vet_emptied(task, provider, no_op.verdict)
    return VetResult(task.name, oracle.verdict, no_op.verdict, emptied, (*problems, *empty_problems))


async def vet_all(
    tasks: Sequence[Task], provider: SandboxProvider, *, at_once: int | None = None, reports: bool = True
) -> tuple[VetResult, ...]:
    """Vet tasks side by side (null: as many as there are cores); results in the order of the tasks."""
    places = asyncio.Semaphore(at_once or os.cpu_count() or 1)

    async def one(task: Task) -> VetResult:
        async with places:
            return await vet(task, provider, reports=reports)

    return await side_by_side(one(task) for task in tasks)


async def _vet_emptied(
    task: Task, provider: SandboxProvider, no_op: Verdict | None
) -> tuple[Verdict | None, Sequence[Problem]]:
    """An agent that deletes everything must not score in full."""
    if task.environment is None:
        # A sandbox starts empty: the no-op has shown it, and has said what is wrong.
        return no_op, ()
    run = await _run(task, provider, "empty")
    if run.verdict is None:
        return None, run.problems
    return run.verdict, _full_score(run.verdict, "empty-full", "empty: an empty working directory")


@dataclass(frozen=True)
class _Run:
    """One run of a task: what grading said, or why there is no grade."""

    verdict: Verdict | None = None
    problems: tuple[Problem, ...] = ()
    failed: tuple[str, ...] = ()
    """Tests that did not pass, with their reasons."""


async def _run(task: Task, provider: SandboxProvider, start: Start) -> _Run:
    run = await _run_once(task, provider, start)
    # Of many hundred sandboxes one is lost now and then; a second loss in a row is told.
    return await _run_once(task, provider, start) if _lost(run) else run


def _lost(run: _Run) -> bool:
    return any(problem.kind == "sandbox-lost" for problem in run.problems)


async def _run_once(task: Task, provider: SandboxProvider, start: Start) -> _Run:
    # A task's name may be as long as a sandbox's; the random end keeps two runs of one task apart.
    name = f"vet-{start}-{task.name[:80]}-{secrets.token_hex(4)}"
    try:
        sandbox = await _sandbox(task, provider, name)
    except SandboxError as error:
        return _without_grade("no-sandbox", f"{start}: no sandbox: {error}")
    try:
        return await _graded(task, sandbox, start)
    except VerifierError as error:
        # Tests that break where all files are gone have scored nothing, which is what is asked of them.
        return (
            _Run() if start == "empty" else _without_grade(_CAUSES.get(error.cause, "not-graded"), f"{start}: {error}")
        )
    except SandboxError as error:
        return _without_grade("sandbox-lost", f"{start}: sandbox lost: {error}")
    finally:
        await sandbox.close()


async def _graded(task: Task, sandbox: Sandbox, start: Start) -> _Run:
    if failure := await _prepare(task, sandbox, start):
        return _without_grade("oracle-fails", failure)
    with tempfile.TemporaryDirectory(prefix="t1-vet-") as scratch:
        trial_dir = Path(scratch) / "trial"
        verdict = await grade(task, sandbox, trial_dir=trial_dir)
        return _Run(verdict, failed=failed_tests(trial_dir))


def _without_grade(kind: str, message: str) -> _Run:
    return _Run(problems=(Problem(kind, message),))


async def _sandbox(task: Task, provider: SandboxProvider, name: str) -> Sandbox:
    if isinstance(provider, QueuedProvider):
        # A server may have an image per task, and finds it by these.
        placement = Placement(task.name, name, str(task.path), task.instruction)
        await provider.reserve(name, owner=OWNER, placement=placement)
    return await provider.create(name, owner=OWNER)


async def _prepare(task: Task, sandbox: Sandbox, start: Start) -> str:
    """Bring the sandbox to where grading starts; what went wrong, or an empty text. Raises SandboxError."""
    if task.environment is not None and start != "empty":
        await sandbox.put_directory(task.environment, "/work", read_only=False)
    if start != "oracle":
        return ""
    await sandbox.put_directory(task.solution, "/solution", read_only=True)
    solved = await sandbox.exec('sh "${T1_ROOT:-}/solution/solve.sh"', timeout_seconds=_SOLVE_SECONDS)
    if solved.timed_out:
        return f"oracle: solve.sh ended with the limit of {_SOLVE_SECONDS:g} s:{after_colon(solved.output)}"
    return (
        "" if solved.exit_code == 0 else f"oracle: solve.sh ended with {solved.exit_code}:{after_colon(solved.output)}"
    )


def _oracle_problems(task: Task, oracle: Verdict, failed: tuple[str, ...], reports: bool) -> list[Problem]:
    problems: list[Problem] = []
    if not oracle.solved:
        which = f"; failed: {named(failed)}" if failed else ""
        counts = f"{oracle.passed} of {oracle.total} tests passed{which}"
        problems.append(Problem("oracle-fails", f"oracle: the verifier says it is not solved ({counts})"))
    if not reports:
        return problems
    if oracle.ctrf != "ok":
        kind = "ctrf-disagrees" if oracle.ctrf == "disagree" else f"ctrf-{oracle.ctrf}"
        problems.append(Problem(kind, f"oracle: the CTRF report is {oracle.ctrf}"))
    elif task.expected_tests is not None and oracle.total != task.expected_tests:
        counts = f"{oracle.total} tests reported, {task.expected_tests} expected"
        problems.append(Problem("test-count", f"oracle: {counts}"))
    return problems


def _full_score(verdict: Verdict, kind: str, what: str) -> list[Problem]:
    if verdict.solved:
        return [Problem(kind, f"{what} solves it")]
    if verdict.ctrf == "ok" and verdict.passed == verdict.total:
        return [Problem(kind, f"{what} passes every test")]
    return []
