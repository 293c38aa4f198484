"""Tasks that are really run, in a guarded process: each solved, untouched and emptied, until it is clear."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t1cli.preflight.interval import Z_90, wilson
from t1cli.preflight.sandbox_probe import impatient_spec, sweep
from t1cli.spec.sandbox import PoolSandbox
from t1cli.spec.sandbox import Sandbox as SandboxSpec

if TYPE_CHECKING:
    from t1cli.terminal.tasks.task import Task
    from t1cli.terminal.tasks.vet import VetResult

OF_A_POOL = 8
"""Leases that a sample takes at once of servers whose cores are not known here."""


def work(request: Mapping[str, Any], directory: Path) -> list[dict[str, Any]]:
    """One entry per task that was run, for `{"sandbox", "lease_wait_seconds", "tasks", "minimum", "reports"}`.

    `tasks` are directories in drawing order; `minimum` is the share to be decided: of tasks with per-test reports, or,
    without `reports`, of tasks that are graded right.
    """
    from t1cli.terminal.tasks.load import load_task

    tempfile.tempdir = str(directory)
    tasks = [load_task(Path(path)) for path in request["tasks"]]
    vetted = _until_clear(tasks, impatient_spec(request), directory, float(request["minimum"]), request["reports"])
    return [_told(result) for result in asyncio.run(vetted)]


def clean_up(request: Mapping[str, Any], directory: Path) -> None:
    """Destroy the sandboxes of a worker that was ended in the middle."""
    from t1cli.terminal.tasks.vet import OWNER

    sweep(request, directory, OWNER)


def is_clear(hits: int, samples: int, minimum: float) -> bool:
    """Whether the one-sided 95% bounds of a share lie on one side of the minimum."""
    low, high = wilson(hits, samples, Z_90)
    return low >= minimum or high < minimum


async def _until_clear(
    tasks: Sequence[Task], spec: SandboxSpec, directory: Path, minimum: float, reports: bool
) -> list[VetResult]:
    from t1cli.terminal.sandbox.from_spec import sandbox_provider
    from t1cli.terminal.sandbox.sandbox import SandboxError
    from t1cli.terminal.tasks.vet import vet_all

    hit: Callable[[VetResult], bool] = (lambda one: one.has_ctrf) if reports else (lambda one: one.ok)
    provider = sandbox_provider(spec, directory)
    results: list[VetResult] = []
    at_once = _at_once(spec)
    try:
        while len(results) < len(tasks) and not is_clear(sum(map(hit, results)), len(results), minimum):
            some = tasks[len(results) : len(results) + 2 * at_once]
            results += await vet_all(some, provider, at_once=at_once, reports=reports)
            if lost := next((one.unknown for one in results if one.unknown), ""):
                # Nothing is known of that task: it must not be counted as one without a report.
                raise SandboxError(lost)
    finally:
        await provider.close()
    return results


def _at_once(spec: SandboxSpec) -> int:
    if isinstance(spec, PoolSandbox):
        return min(OF_A_POOL, len(spec.urls) * spec.max_tasks)
    return min(spec.capacity, os.cpu_count() or 1)


def _told(result: VetResult) -> dict[str, Any]:
    oracle = result.oracle
    return {
        "task": result.task,
        "state": oracle.ctrf if oracle is not None else "none",
        "tests": oracle.total if oracle is not None else 0,
        "problems": [problem.message for problem in result.problems],
    }
