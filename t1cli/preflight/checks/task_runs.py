"""tasks: a sample is really run, solved, untouched and emptied, in the sandboxes that the campaign will use."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from t1cli.preflight.check import NOT_A_NODE, Check, Context, Kept, Saw, failed, passed, skipped, warned
from t1cli.preflight.guarded import ProbeBroke, ask_guarded
from t1cli.preflight.interval import Z_90, wilson
from t1cli.preflight.task_pool import state_of, tasks_of

# 25 reports out of 25 put the lower bound above 0.9; a pool that is right needs no more.
MOST_SAMPLED = 40
LOCAL_SECONDS = 230.0
LEASE_WAIT_SECONDS = 300.0
"""A pool that had a lease for the probe has one for each sampled task in turn."""
POOL_SECONDS = 900.0
"""Containers take their time; three of them for each sampled task."""
KEPT_SECONDS = 7 * 24 * 3600.0
RIGHT_SHARE = 0.9
"""Below this share of tasks that are graded right a pool is not worth its GPU time."""


def ctrf_coverage(context: Context) -> Saw:
    """Share of sampled tasks whose solution leaves a fresh, countable report; sampled until the interval decides.

    Each sampled task is graded after its own solution, which must pass, and untouched and emptied, which must not.
    """
    spec = context.spec
    if spec.reward.kind == "binary":
        return skipped("reward.kind is binary: no per-test report is needed; tasks.verdicts runs the sample")
    if spec.tasks.card.verifier == "binary":
        return failed(
            f"the card of {spec.tasks.card.name} says its verifiers emit one bit",
            f"per-test reports for reward.kind {spec.reward.kind}",
            "use reward.kind binary, or a pool whose tests run pytest --ctrf",
        )
    if why := _cannot_run(context):
        return skipped(why)
    return judge_sample(_sample(context, spec.tasks.ctrf_minimum, reports=True), spec.tasks.ctrf_minimum)


def verdicts(context: Context) -> Saw:
    """For a binary reward: a sample graded after its own solution, which must pass, and untouched and emptied."""
    if context.spec.reward.kind != "binary":
        return skipped(f"reward.kind is {context.spec.reward.kind}: tasks.ctrf_coverage runs the sample")
    if why := _cannot_run(context):
        return skipped(why)
    return judge_verdicts(_sample(context, RIGHT_SHARE, reports=False))


def _cannot_run(context: Context) -> str:
    kind = context.spec.sandbox.kind
    if kind == "local" and not context.runs_here:
        return NOT_A_NODE
    return f"sandbox.kind is {kind}: its sandboxes cost money; run `{context.check_tasks}`" if kind == "harbor" else ""


def _sample(context: Context, minimum: float, *, reports: bool) -> list[dict[str, Any]]:
    order = list(tasks_of(context))
    random.Random(context.spec.seed).shuffle(order)
    request = {
        "sandbox": context.spec.sandbox.model_dump(mode="json"),
        "lease_wait_seconds": LEASE_WAIT_SECONDS,
        "tasks": [str(task.path) for task in order[:MOST_SAMPLED]],
        "minimum": minimum,
        "reports": reports,
    }
    seconds = POOL_SECONDS if context.spec.sandbox.kind == "pool" else LOCAL_SECONDS
    try:
        found: list[dict[str, Any]] = ask_guarded("t1cli.preflight.task_sample", request, seconds=seconds)
    except ProbeBroke as broke:
        raise RuntimeError(f"sampling: {broke}") from broke
    return found


def judge_sample(results: Sequence[dict[str, Any]], minimum: float) -> Saw:
    """What the sampled tasks' reports and verdicts mean for a dense reward."""
    hits = sum(one["state"] == "ok" for one in results)
    low, high = wilson(hits, len(results), Z_90)
    found = f"{hits} of {len(results)} sampled tasks report per test ({low:.0%} to {high:.0%} at 95% each side)"
    states = Counter(one["state"] for one in results if one["state"] != "ok")
    if states:
        found += f"; the others: {', '.join(f'{count} {state}' for state, count in states.items())}"
    wanted = f"coverage of at least {minimum:.0%}; solutions pass, doing nothing and deleting all do not"
    if hits < minimum * len(results):
        missing = next(one["task"] for one in results if one["state"] != "ok")
        return failed(found, wanted, f"use reward.kind binary, or repair the tests (first without a report: {missing})")
    return _but_for_broken(results, found, wanted)


def judge_verdicts(results: Sequence[dict[str, Any]]) -> Saw:
    """What the sampled tasks' verdicts mean for a binary reward."""
    right = sum(not one["problems"] for one in results)
    low, high = wilson(right, len(results), Z_90)
    found = f"{right} of {len(results)} sampled tasks are graded right ({low:.0%} to {high:.0%} at 95% each side)"
    wanted = f"at least {RIGHT_SHARE:.0%}: solutions pass, doing nothing and deleting all do not"
    if right < RIGHT_SHARE * len(results):
        first = next(one for one in results if one["problems"])
        fix = f"repair the tasks that `t1 tasks check` names (first {first['task']}: {first['problems'][0]})"
        return failed(found, wanted, fix)
    return _but_for_broken(results, found, wanted)


def _but_for_broken(results: Sequence[dict[str, Any]], found: str, wanted: str) -> Saw:
    bad = [one for one in results if one["problems"]]
    if not bad:
        return passed(found, wanted)
    first = bad[0]
    return warned(
        f"{found}; {len(bad)} broken, first {first['task']}: {first['problems'][0]}",
        wanted,
        "repair or leave out these tasks; `t1 tasks check` finds them all",
    )


_NEEDS = ("sandboxes.probe", "tasks.pool")
_LIMIT_SECONDS = POOL_SECONDS + 60.0
_KEPT = Kept(KEPT_SECONDS, state_of)

CHECKS = (
    Check("tasks.ctrf_coverage", ("R1",), ctrf_coverage, limit_seconds=_LIMIT_SECONDS, needs=_NEEDS, kept=_KEPT),
    Check("tasks.verdicts", (), verdicts, limit_seconds=_LIMIT_SECONDS, needs=_NEEDS, kept=_KEPT),
)
