"""tasks: the pool is there, its verifiers read well, and its budgets are respected."""

from __future__ import annotations

from collections import Counter
from statistics import median

from t1cli.errors import BadInput
from t1cli.preflight.check import NOT_A_NODE, Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.task_pool import tasks_of
from t1cli.spec.reward_scale import LEAST, MOST, fits, ninetieth
from t1cli.spec.sandbox import LocalSandbox


def pool(context: Context) -> Saw:
    """Every task of the pool can be read, and their number is what the card says."""
    if not context.runs_here and not context.tasks_path.is_dir():
        return skipped(NOT_A_NODE)
    try:
        tasks = tasks_of(context)
    except BadInput as error:
        more = f" (and {len(error.diagnostics) - 1} more)" if len(error.diagnostics) > 1 else ""
        first = error.diagnostics[0]
        where = f"{first.where}: " if first.where and first.where not in first.message else ""
        return failed(f"{where}{first.message}{more}", "a readable pool", first.hint or f"look at {first.where}")
    card = context.spec.tasks.card
    found, wanted = f"{len(tasks)} tasks in {context.tasks_path}", f"{card.num_tasks} by the card of {card.name}"
    if len(tasks) == card.num_tasks or context.spec.tasks.families:
        return passed(found, wanted)
    return warned(found, wanted, "correct tasks.card.num_tasks: epochs and skipped tasks are computed from it")


def verifiers(context: Context) -> Saw:
    """Each test.sh as text: whether it works without a network, and always writes a reward."""
    from t1cli.terminal.tasks.static_check import static_problems

    sandbox = context.spec.sandbox
    network = sandbox.limits.network if isinstance(sandbox, LocalSandbox) else True
    tasks = tasks_of(context)
    found = {task.name: static_problems(task.tests / "test.sh", network=network) for task in tasks}
    fatal = {name: [one for one in problems if one.fatal] for name, problems in found.items()}
    bad = {name: problems for name, problems in fatal.items() if problems}
    wanted = "verifiers that need no network and always write reward.txt or reward.json"
    if not bad:
        return passed(f"{len(tasks)} verifiers read", wanted)
    kinds = Counter(problem.kind for problems in bad.values() for problem in problems)
    name, first = next((name, problems[0]) for name, problems in bad.items())
    counted = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
    said = f"{len(bad)} of {len(tasks)} ({counted}); {name}: {first.message}"
    judge = failed if len(bad) == len(tasks) else warned
    return judge(said, wanted, f"`{context.check_tasks}` names them all; repair them or leave them out")


def test_counts(context: Context) -> Saw:
    """Tests per task against the scale S of a dense reward: above them it shrinks every reward."""
    reward = context.spec.reward
    if reward.kind != "ctrf_count":
        return skipped(f"reward.kind is {reward.kind}: no scale")
    counts = [task.expected_tests for task in tasks_of(context) if task.expected_tests]
    if not counts:
        return skipped(f"no task declares expected_tests; `{context.check_tasks}` counts them")
    p90 = ninetieth(counts)
    found = f"tests per task: median {median(counts):g}, p90 {p90:g}, most {max(counts)}; S = {reward.scale:g}"
    wanted = f"S near the 90th percentile, between {LEAST:g} and {MOST:g} times it"
    if reward.scale_per_batch or fits(reward.scale, p90):
        return passed(found, wanted)
    fix = f"--set reward.scale={p90:g}; it must stay the same for the whole campaign"
    return warned(found, wanted, fix)


def budgets(context: Context) -> Saw:
    """Tasks whose declared agent budget is cut by the spec's override or by the trial wall."""
    tasks = tasks_of(context)
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


_POOL = ("tasks.pool",)

CHECKS = (
    Check("tasks.pool", (), pool, limit_seconds=120.0),
    Check("tasks.verifiers", ("R3",), verifiers, limit_seconds=60.0, needs=_POOL),
    Check("tasks.test_counts", ("R2",), test_counts, needs=_POOL),
    Check("tasks.budgets", ("R10",), budgets, needs=_POOL),
)
