"""`t1 tasks check` on a large generated pool: every verdict right, at little more than the price of the bare runs."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.sandbox.sandbox import SandboxError
from t1cli.terminal.tasks.check_pool import check_pool, task_directories
from t1cli.terminal.tasks.generator import main as generate
from t1cli.terminal.tasks.load import load_task
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.tasks.verify_script import warm_job
from tests.perf.promises import Promises
from tests.unit.terminal.tasks.broken_tasks import BROKEN, break_task

COPIES = 3
"""Tasks that are broken in each way."""
PART = 25
"""Tasks that one mode runs before the other has its turn, so that a slow hour of the machine hits both."""
MOST_TIMES = 1.5


def many_tasks(scratch: Path, count: int, promises: Promises) -> None:
    """A pool with planted bad tasks, checked and run bare in turns."""
    pool, record = scratch / "pool", scratch / "record.jsonl"
    expected = _plant(pool, count)
    seconds = asyncio.run(_in_turns(task_directories(pool), set(expected), scratch, record))
    wrong = _wrong_verdicts(record, expected)
    kinds = f"{len(BROKEN)} kinds of broken task, {len(expected)} planted in {count}"
    promises.check("verdict per task", f"{len(wrong)} wrong {wrong[:5] or ''}; {kinds}", holds=not wrong)
    ratio = seconds["check"] / seconds["bare"]
    found = f"{ratio:.2f} x bare, {MOST_TIMES:g} allowed ({seconds['check']:.0f} s against {seconds['bare']:.0f} s"
    found += f" over the {count - len(expected)} good tasks)"
    promises.check("cost of the check", found, holds=ratio <= MOST_TIMES)
    _command(pool, record, count, len(expected), promises)


def _plant(pool: Path, count: int) -> dict[str, str]:
    """Write the pool and break some of it. Returns the kind that each broken task must be called."""
    with contextlib.redirect_stdout(io.StringIO()):
        generate([str(pool), "--count", str(count), "--seed", "7"])
    tasks = sorted(pool.iterdir())
    names = [name for name in BROKEN for _ in range(COPIES)]
    step = len(tasks) // len(names)
    chosen = dict(zip(tasks[::step], names, strict=False))
    for task, name in chosen.items():
        break_task(task, name)
    return {task.name: BROKEN[name][0] for task, name in chosen.items()}


async def _in_turns(directories: tuple[Path, ...], planted: set[str], scratch: Path, record: Path) -> dict[str, float]:
    """Seconds of either mode over the good tasks. What is broken is checked too, but not timed: it waits, or is
    refused before it runs, and would flatter the check."""

    async def check(part: tuple[Path, ...]) -> None:
        await check_pool(part, providers["check"], record=record)

    async def bare(part: tuple[Path, ...]) -> None:
        await _bare(part, providers["bare"])

    providers = {name: LocalProvider(LocalSandbox(), scratch / f"tasks-{name}") for name in ("bare", "check")}
    modes: dict[str, Callable[[tuple[Path, ...]], Awaitable[None]]] = {"bare": bare, "check": check}
    seconds = dict.fromkeys(modes, 0.0)
    good = tuple(directory for directory in directories if directory.name not in planted)
    for number, start in enumerate(range(0, len(good), PART)):
        for name in sorted(modes, reverse=bool(number % 2)):
            began = time.monotonic()
            await modes[name](good[start : start + PART])
            seconds[name] += time.monotonic() - began
    await check(tuple(directory for directory in directories if directory.name in planted))
    for provider in providers.values():
        await provider.close()
    return seconds


async def _bare(directories: tuple[Path, ...], provider: LocalProvider) -> None:
    """The plain loop: solution and tests, then tests alone, each in a sandbox of its own, and nothing looked at."""
    places = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(directory: Path) -> None:
        async with places:
            with contextlib.suppress(BadInput, SandboxError):
                task = load_task(directory)
                for solve in (True, False):
                    await _run_bare(task, provider, solve=solve)

    await asyncio.gather(*(one(directory) for directory in directories))


async def _run_bare(task: Task, provider: LocalProvider, *, solve: bool) -> bytes | None:
    sandbox: Any = await provider.create(f"bare-{task.name}-{solve}", owner="bare")
    try:
        if task.environment is not None:
            await sandbox.put_directory(task.environment, "/work", read_only=False)
        if solve and task.solution.is_dir():
            await sandbox.put_directory(task.solution, "/solution", read_only=True)
            await sandbox.exec("sh /solution/solve.sh", timeout_seconds=120.0)
        await sandbox.put_directory(task.tests, "/tests", read_only=True)
        await sandbox.reset_directory("/logs/verifier")
        # As fast as the check's own way: from the warm interpreter where the script is the generated one.
        job, limit = warm_job(task.tests), task.verifier_timeout_seconds
        ran = await sandbox.run_pytest(job, timeout_seconds=limit) if job is not None else None
        if ran is None:
            await sandbox.exec("cd /work; sh /tests/test.sh", timeout_seconds=limit, cwd="/")
        return bytes(await sandbox.read_file("/logs/verifier/reward.txt", max_bytes=4096) or b"")
    finally:
        await sandbox.close()


def _wrong_verdicts(record: Path, expected: dict[str, str]) -> list[str]:
    wrong = []
    for line in record.read_text().splitlines():
        found = json.loads(line)
        fatal = {problem["kind"] for problem in found["problems"] if problem["fatal"]}
        kind = expected.get(found["name"])
        if (kind is None and fatal) or (kind is not None and kind not in fatal):
            wrong.append(f"{found['name']}: {sorted(fatal)}, expected {kind}")
    return wrong


def _command(pool: Path, record: Path, count: int, broken: int, promises: Promises) -> None:
    """The command itself, going on from that record: it has nothing left to run, and says the same."""
    argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "tasks", "check", str(pool)]
    done = subprocess.run([*argv, "--record", str(record), "--json"], capture_output=True, text=True)
    found = json.loads(done.stdout) if done.stdout else {}
    figures = {name: found.get(name) for name in ("tasks", "good", "resumed")}
    holds = done.returncode == 1 and figures == {"tasks": count, "good": count - broken, "resumed": count}
    promises.check("t1 tasks check on its record", f"{figures}, exit {done.returncode}", holds=holds)
