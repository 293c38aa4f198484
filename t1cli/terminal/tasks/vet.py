"""Vetting a task by really running it: its oracle must pass every test, doing nothing must not."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.sandbox.sandbox import SandboxError, SandboxProvider
from t1cli.terminal.tasks.task import Task

_SOLVE_SECONDS = 120.0


@dataclass(frozen=True)
class VetResult:
    """What two runs of a task showed."""

    task: str
    oracle: Verdict | None
    """After the task's own solution; None when it could not be graded."""
    no_op: Verdict | None
    """After doing nothing."""
    problems: tuple[str, ...] = ()
    """Why the task must not be trained on; empty when it may."""

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def has_ctrf(self) -> bool:
        """Whether the oracle's run wrote a fresh report whose tests can be counted."""
        return self.oracle is not None and self.oracle.ctrf == "ok"


async def vet(task: Task, provider: SandboxProvider) -> VetResult:
    """Grade the task after its solution and after nothing, each in a sandbox of its own; a bad task never raises."""
    oracle, oracle_problem = await _run(task, provider, solve=True)
    no_op, no_op_problem = await _run(task, provider, solve=False)
    problems = [problem for problem in (oracle_problem, no_op_problem) if problem]
    problems += _oracle_problems(task, oracle) if oracle else []
    problems += _no_op_problems(no_op) if no_op else []
    return VetResult(task.name, oracle, no_op, tuple(problems))


async def vet_all(
    tasks: Sequence[Task], provider: SandboxProvider, *, at_once: int | None = None
) -> tuple[VetResult, ...]:
    """Vet tasks side by side (null: as many as there are cores); results in the order of the tasks."""
    places = asyncio.Semaphore(at_once or os.cpu_count() or 1)

    async def one(task: Task) -> VetResult:
        async with places:
            return await vet(task, provider)

    return tuple(await asyncio.gather(*(one(task) for task in tasks)))


async def _run(task: Task, provider: SandboxProvider, *, solve: bool) -> tuple[Verdict | None, str]:
    who = "oracle" if solve else "no-op"
    # A task's name may be as long as a sandbox's; the random end keeps two runs of one task apart.
    name = f"vet-{who}-{task.name[:80]}-{secrets.token_hex(4)}"
    try:
        sandbox = await provider.create(name, owner="vet")
    except SandboxError as error:
        return None, f"{who}: no sandbox: {error}"
    try:
        with tempfile.TemporaryDirectory(prefix="t1-vet-") as scratch:
            if task.environment is not None:
                await sandbox.put_directory(task.environment, "/work", read_only=False)
            if solve:
                await sandbox.put_directory(task.solution, "/solution", read_only=True)
                solved = await sandbox.exec('sh "${T1_ROOT:-}/solution/solve.sh"', timeout_seconds=_SOLVE_SECONDS)
                if solved.exit_code != 0:
                    return None, f"oracle: solve.sh ended with {solved.exit_code}: {solved.output.strip()[-200:]}"
            return await grade(task, sandbox, trial_dir=Path(scratch) / "trial"), ""
    except (SandboxError, VerifierError) as error:
        return None, f"{who}: {error}"
    finally:
        await sandbox.close()


def _oracle_problems(task: Task, oracle: Verdict) -> list[str]:
    problems: list[str] = []
    if not oracle.solved:
        problems.append(f"oracle: the verifier says it is not solved ({oracle.passed} of {oracle.total} tests passed)")
    if oracle.ctrf != "ok":
        problems.append(f"oracle: the CTRF report is {oracle.ctrf}")
    elif task.expected_tests is not None and oracle.total != task.expected_tests:
        problems.append(f"oracle: {oracle.total} tests reported, {task.expected_tests} expected")
    return problems


def _no_op_problems(no_op: Verdict) -> list[str]:
    if no_op.solved:
        return ["no-op: doing nothing solves it"]
    if no_op.ctrf == "ok" and no_op.passed == no_op.total:
        return ["no-op: doing nothing passes every test"]
    return []
