"""tasks: the pool is there, its tests report per test, its solutions pass, and its budgets are respected."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t1cli.errors import BadInput
from t1cli.preflight.check import NOT_A_NODE, Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.interval import Z_90, wilson
from t1cli.spec.sandbox import LocalSandbox

if TYPE_CHECKING:
    from t1cli.terminal.tasks.task import Task
    from t1cli.terminal.tasks.vet import VetResult

# 25 reports out of 25 put the lower bound above 0.9; a pool that is right needs no more.
MOST_SAMPLED = 40


def pool(context: Context) -> Saw:
    """Every task of the pool can be read, and their number is what the card says."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    try:
        tasks = _load(context)
    except BadInput as error:
        more = f" (and {len(error.diagnostics) - 1} more)" if len(error.diagnostics) > 1 else ""
        first = error.diagnostics[0]
        return failed(f"{first.message}{more}", "a readable pool", first.hint or f"look at {first.where}")
    card = context.spec.tasks.card
    found, wanted = f"{len(tasks)} tasks in {context.tasks_path}", f"{card.num_tasks} by the card of {card.name}"
    if len(tasks) == card.num_tasks or context.spec.tasks.families:
        return passed(found, wanted)
    return warned(found, wanted, "correct tasks.card.num_tasks: epochs and skipped tasks are computed from it")


def ctrf_coverage(context: Context) -> Saw:
    """Share of sampled tasks whose solution leaves a fresh, countable report; sampled until the interval decides."""
    spec = context.spec
    if spec.reward.kind == "binary":
        return skipped("reward.kind is binary: no per-test report is needed")
    if spec.tasks.card.verifier == "binary":
        return failed(
            f"the card of {spec.tasks.card.name} says its verifiers emit one bit",
            f"per-test reports for reward.kind {spec.reward.kind}",
            "use reward.kind binary, or a pool whose tests run pytest --ctrf",
        )
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    if not isinstance(spec.sandbox, LocalSandbox):
        return skipped(f"sandbox.kind is {spec.sandbox.kind}: sampled where the campaign runs")
    results = _sample(context, spec.sandbox)
    return _judge(results, spec.tasks.ctrf_minimum)


def budgets(context: Context) -> Saw:
    """Tasks whose declared agent budget is cut by the spec's override or by the trial wall."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    tasks = _load(context)
    override, wall = context.spec.tasks.timeout_override_seconds, context.spec.rollout.trial_wall_seconds
    limit = wall if override is None else min(override, wall)
    cut = [task for task in tasks if task.agent_timeout_seconds is not None and task.agent_timeout_seconds > limit]
    wanted = f"no declared budget above {limit:g} s"
    if not cut:
        return passed(f"none of {len(tasks)} tasks declares more", wanted)
    longest = max(cut, key=lambda task: task.agent_timeout_seconds or 0)
    return warned(
        f"{len(cut)} of {len(tasks)} tasks declare more, up to {longest.agent_timeout_seconds:g} s ({longest.name})",
        wanted,
        "raise rollout.trial_wall_seconds, or remove tasks.timeout_override_seconds",
    )


def _load(context: Context) -> tuple[Task, ...]:
    from t1cli.terminal.tasks.load import load_pool

    spec = context.spec.tasks
    return load_pool(context.tasks_path, layout=spec.layout, families=spec.families)


def _sample(context: Context, sandbox: LocalSandbox) -> list[VetResult]:
    order = list(_load(context))
    random.Random(context.spec.seed).shuffle(order)
    with tempfile.TemporaryDirectory(prefix="t1-preflight-") as directory:
        return asyncio.run(_vet_until_clear(order[:MOST_SAMPLED], sandbox, Path(directory), context))


async def _vet_until_clear(
    tasks: Sequence[Task], sandbox: LocalSandbox, directory: Path, context: Context
) -> list[VetResult]:
    from t1cli.terminal.sandbox.local import LocalProvider
    from t1cli.terminal.tasks.vet import vet_all

    provider = LocalProvider(sandbox, directory)
    results: list[VetResult] = []
    at_once = min(sandbox.capacity, os.cpu_count() or 1)
    try:
        while len(results) < len(tasks) and not _clear(results, context.spec.tasks.ctrf_minimum):
            results += await vet_all(tasks[len(results) : len(results) + 2 * at_once], provider, at_once=at_once)
    finally:
        await provider.close()
    return results


def _clear(results: Sequence[VetResult], minimum: float) -> bool:
    low, high = wilson(sum(result.has_ctrf for result in results), len(results), Z_90)
    return low >= minimum or high < minimum


def _judge(results: Sequence[VetResult], minimum: float) -> Saw:
    hits = sum(result.has_ctrf for result in results)
    low, high = wilson(hits, len(results), Z_90)
    found = f"{hits} of {len(results)} sampled tasks report per test ({low:.0%} to {high:.0%} at 95% each side)"
    wanted = f"coverage of at least {minimum:.0%}; solutions pass, doing nothing does not"
    bad = [result for result in results if not result.ok]
    if hits < minimum * len(results):
        missing = next(result.task for result in results if not result.has_ctrf)
        return failed(found, wanted, f"use reward.kind binary, or repair the tests (first without a report: {missing})")
    if bad:
        return warned(
            f"{found}; {len(bad)} broken, first {bad[0].task}: {bad[0].problems[0]}",
            wanted,
            "repair or leave out these tasks",
        )
    return passed(found, wanted)


CHECKS = (
    Check("tasks.pool", (), pool),
    Check("tasks.ctrf_coverage", ("R1",), ctrf_coverage, limit_seconds=180.0),
    Check("tasks.budgets", ("R10",), budgets),
)
