"""Sandbox demand against capacity: both limits of a pool, every server, and how requests are routed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from t1cli.plan.plan import PoolPlan
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.sandbox import PoolSandbox


@dataclass(frozen=True)
class Demand:
    """Sandboxes that one rollout wants at the same moment."""

    groups: int
    """Prompt groups launched, over-sampling included; each is one task."""
    samples: int
    """Trials of one group, all on the same task."""

    @property
    def leases(self) -> int:
        return self.groups * self.samples


@dataclass(frozen=True)
class PoolShape:
    """The limits of a pool: `servers` equal servers."""

    servers: int
    max_tasks: int
    """Different tasks that one server holds at once."""
    max_runs_per_task: int
    """Leases of one task that one server holds at once."""
    hash_routing: bool = True
    """Every lease of a task goes to the same server; otherwise to whichever has a free slot."""

    @property
    def leases(self) -> int:
        return self.servers * self.max_tasks * self.max_runs_per_task


def rollout_demand(spec: ExperimentSpec) -> Demand:
    """What one rollout launches. A pipelined rollout still has one batch of trials alive at a time."""
    return Demand(groups=spec.rollout.groups_launched, samples=spec.rollout.samples_per_prompt)


def pool_shape(sandbox: PoolSandbox) -> PoolShape:
    """The limits a spec's pool has."""
    return PoolShape(
        servers=len(sandbox.urls),
        max_tasks=sandbox.max_tasks,
        max_runs_per_task=sandbox.max_runs_per_task,
        hash_routing=sandbox.routing == "hash",
    )


def granted_leases(shape: PoolShape, demand: Demand) -> int:
    """Leases that both limits grant at once when tasks spread evenly over the servers (the best case)."""
    if shape.hash_routing:
        return min(demand.groups, shape.servers * shape.max_tasks) * min(demand.samples, shape.max_runs_per_task)
    servers_per_group = min(shape.servers, math.ceil(demand.samples / shape.max_runs_per_task))
    runs_per_group = min(demand.samples, servers_per_group * shape.max_runs_per_task)
    full_groups = min(demand.groups, shape.servers * shape.max_tasks // servers_per_group)
    left_slots = shape.servers * shape.max_tasks - full_groups * servers_per_group
    left_groups = demand.groups - full_groups
    return full_groups * runs_per_group + min(left_slots, left_groups) * min(demand.samples, shape.max_runs_per_task)


def chance_all_tasks_placed(shape: PoolShape, groups: int) -> float:
    """Probability that hashing `groups` tasks uniformly puts at most `max_tasks` on every server.

    Counts the assignments server by server: ways(s, g) = sum over k ≤ max_tasks of C(g, k) · ways(s - 1, g - k).
    """
    if groups > shape.servers * shape.max_tasks:
        return 0.0
    if not shape.hash_routing or shape.servers == 1 or groups <= shape.max_tasks:
        return 1.0
    ways = [1] + [0] * groups
    for _ in range(shape.servers):
        ways = [
            sum(math.comb(placed, here) * ways[placed - here] for here in range(min(placed, shape.max_tasks) + 1))
            for placed in range(groups + 1)
        ]
    return float(ways[groups] / shape.servers**groups)


def plan_pool(spec: ExperimentSpec) -> PoolPlan:
    """Demand, capacity, their ratio, and how many leases of the demand can really be held at once."""
    if spec.engine.kind == "slime" and spec.engine.from_script:
        # slime's own rollout on prompts: there is no sandbox.
        return PoolPlan(0, 0, 0.0, 0, placement_chance=1.0, closing_leases=0, evaluation_demand=0)
    demand, sandbox = rollout_demand(spec), spec.sandbox
    if sandbox.kind == "pool":
        shape = pool_shape(sandbox)
        capacity, granted = shape.leases, granted_leases(shape, demand)
        chance = chance_all_tasks_placed(shape, demand.groups)
    else:
        capacity, granted = sandbox.capacity, min(sandbox.capacity, demand.leases)
        chance = 1.0 if granted == demand.leases else 0.0
    return PoolPlan(
        demand=demand.leases,
        capacity=capacity,
        ratio=demand.leases / capacity,
        granted=granted,
        placement_chance=chance,
        closing_leases=_closing_leases(spec),
        evaluation_demand=spec.evaluation.num_tasks * spec.evaluation.repeats if spec.evaluation else 0,
    )


def _closing_leases(spec: ExperimentSpec) -> int:
    """Cancelled surplus trials whose sandboxes may still be closing when a pipelined next rollout starts."""
    if spec.rollout.pipeline == "sync":
        return 0
    surplus = spec.rollout.groups_launched - spec.rollout.batch_size
    return max(0, surplus) * spec.rollout.samples_per_prompt
