"""Tasks that are really run, in a guarded process: each solved, untouched and emptied, until it is clear."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t1cli.preflight.interval import Z_90, wilson
from t1cli.spec.sandbox import LocalSandbox

if TYPE_CHECKING:
    from t1cli.terminal.tasks.task import Task
    from t1cli.terminal.tasks.vet import VetResult


def work(request: Mapping[str, Any], directory: Path) -> list[dict[str, Any]]:
    """`{"sandbox", "tasks": directories in drawing order, "minimum"}` in; one entry per task that was run."""
    from t1cli.terminal.tasks.load import load_task

    tempfile.tempdir = str(directory)
    tasks = [load_task(Path(path)) for path in request["tasks"]]
    spec = LocalSandbox.model_validate(request["sandbox"])
    results = asyncio.run(_until_clear(tasks, spec, directory, float(request["minimum"])))
    return [_told(result) for result in results]


def clean_up(request: Mapping[str, Any], directory: Path) -> None:
    """Destroy the sandboxes of a worker that was ended in the middle."""
    from t1cli.terminal.sandbox.sweep import sweep_directory

    sweep_directory(directory)


def is_clear(hits: int, samples: int, minimum: float) -> bool:
    """Whether the one-sided 95% bounds of a share lie on one side of the minimum."""
    low, high = wilson(hits, samples, Z_90)
    return low >= minimum or high < minimum


async def _until_clear(tasks: Sequence[Task], spec: LocalSandbox, directory: Path, minimum: float) -> list[VetResult]:
    from t1cli.terminal.sandbox.local import LocalProvider
    from t1cli.terminal.tasks.vet import vet_all

    provider = LocalProvider(spec, directory)
    results: list[VetResult] = []
    at_once = min(spec.capacity, os.cpu_count() or 1)
    try:
        while len(results) < len(tasks) and not is_clear(sum(one.has_ctrf for one in results), len(results), minimum):
            results += await vet_all(tasks[len(results) : len(results) + 2 * at_once], provider, at_once=at_once)
    finally:
        await provider.close()
    return results


def _told(result: VetResult) -> dict[str, Any]:
    oracle = result.oracle
    return {
        "task": result.task,
        "state": oracle.ctrf if oracle is not None else "none",
        "tests": oracle.total if oracle is not None else 0,
        "problems": list(result.problems),
    }
