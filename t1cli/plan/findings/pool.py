"""S1: a pool that cannot hold one rollout's trials, and which of the known remedies really can."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding, PoolPlan
from t1cli.plan.pool import Demand, PoolShape, pool_shape, rollout_demand
from t1cli.plan.remedies import Remedy, remedies
from t1cli.spec.sandbox import PoolSandbox

# Below this chance that hashing places every task, the imbalance itself is worth a warning.
SURE = 0.99


def over_subscribed_pool(draft: Draft) -> Iterator[Finding]:
    """S1: fewer leases than trials, by either limit; an error where a full pool answers 429."""
    sandbox = draft.spec.sandbox
    if sandbox.kind != "pool":
        return
    shape, demand = pool_shape(sandbox), rollout_demand(draft.spec)
    if draft.pool.granted < demand.leases:
        yield draft.finding(
            "S1",
            "warning" if sandbox.queueing else "error",
            key="sandbox.max_tasks",
            message=_starved(shape, demand, pool=draft.pool, queueing=sandbox.queueing),
            fix=_ways_out(sandbox, shape, demand=demand),
        )
    elif draft.pool.placement_chance < SURE:
        yield draft.finding(
            "S1",
            "warning",
            key="sandbox.routing",
            message=f"{demand.groups} tasks hashed over {shape.servers} servers of {shape.max_tasks} tasks: only in "
            f"{draft.pool.placement_chance:.0%} of rollouts does every task find a slot",
            fix=f"--set sandbox.routing=free_slots, or --set sandbox.max_tasks={demand.groups}",
        )


def over_subscribed_account(draft: Draft) -> Iterator[Finding]:
    """S1: the same for local sandboxes (they wait for each other) and a provider's account (it refuses)."""
    sandbox, pool = draft.spec.sandbox, draft.pool
    if sandbox.kind == "pool" or pool.granted >= pool.demand:
        return
    local = sandbox.kind == "local"
    yield draft.finding(
        "S1",
        "warning" if local else "error",
        key="sandbox.capacity",
        message=f"one rollout wants {pool.demand} sandboxes, {pool.capacity} exist at once ({pool.ratio:.1f}×): "
        + (f"trials run in {-(-pool.demand // pool.capacity)} waves" if local else "the provider refuses the rest"),
        fix=f"--set sandbox.capacity={pool.demand}, or a smaller rollout.batch_size",
    )


def _starved(shape: PoolShape, demand: Demand, *, pool: PoolPlan, queueing: bool) -> str:
    parts = [
        f"{shape.servers} server{'s' if shape.servers > 1 else ''} × {shape.max_tasks} tasks × "
        f"{shape.max_runs_per_task} runs = {shape.leases} leases, one rollout wants {demand.groups} prompts × "
        f"{demand.samples} samples = {demand.leases} ({pool.ratio:.1f}×)"
    ]
    if shape.max_runs_per_task < demand.samples and (shape.hash_routing or shape.servers == 1):
        parts.append(
            f"per task {shape.max_runs_per_task} < {demand.samples} samples, so "
            f"{demand.samples - shape.max_runs_per_task} of {demand.samples} wait even in an idle pool"
        )
    left = demand.leases - pool.granted
    parts.append(
        f"at most {pool.granted} trials hold a sandbox, {left} "
        + ("queue" if queueing else "are answered 429 from the first seconds on")
    )
    return "; ".join(parts)


def _ways_out(sandbox: PoolSandbox, shape: PoolShape, *, demand: Demand) -> str:
    lines = [_line(remedy, sandbox) for remedy in remedies(shape, demand)]
    return "one of:\n" + "\n".join(lines)


def _line(remedy: Remedy, sandbox: PoolSandbox) -> str:
    verdict = f"holds all {remedy.demand.leases}" if remedy.holds else _refused(remedy)
    if remedy.holds and remedy.chance < SURE:
        verdict += f" if hashing is even (chance {remedy.chance:.0%}; routing free_slots makes it sure)"
    ram, disk = (
        min(remedy.demand.leases, remedy.shape.leases) * gib
        for gib in (sandbox.memory_per_sandbox_gib, sandbox.disk_per_sandbox_gib)
    )
    line = f"{remedy.label}: {remedy.text}: {verdict}; {ram:.0f} GiB RAM, {disk:.0f} GiB disk in all"
    return f"{line} ({remedy.settings})" if remedy.settings and remedy.holds else line


def _refused(remedy: Remedy) -> str:
    limit, samples = remedy.shape.max_runs_per_task, remedy.demand.samples
    if limit < samples:
        return f"still refuses {samples - limit} of {samples} runs per task ({remedy.granted} held)"
    return f"still refuses {remedy.demand.leases - remedy.granted} of {remedy.demand.leases}"


RULES = (over_subscribed_pool, over_subscribed_account)
