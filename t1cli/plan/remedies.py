"""The postmortem's four remedies for a starved pool, each evaluated again under both limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from t1cli.plan.pool import Demand, PoolShape, chance_all_tasks_placed, granted_leases

# One worker of the public terminal-rl deployment (Qwen3-8B postmortem, §2: run_pool_server.sh).
PUBLIC_MAX_TASKS, PUBLIC_MAX_RUNS = 16, 8


@dataclass(frozen=True)
class Remedy:
    """One way out, and what it does to the demand it is meant for."""

    label: str
    """A to D as in the Qwen3-8B postmortem."""
    text: str
    shape: PoolShape
    demand: Demand

    settings: str = ""
    """What `--set` would change, where the remedy is one."""

    @property
    def granted(self) -> int:
        return granted_leases(self.shape, self.demand)

    @property
    def holds(self) -> bool:
        return self.granted == self.demand.leases

    @property
    def chance(self) -> float:
        """Probability that hashing also finds a place for every task."""
        return chance_all_tasks_placed(self.shape, self.demand.groups)


def remedies(shape: PoolShape, demand: Demand) -> tuple[Remedy, ...]:
    """A one bigger server, B more servers on one host, C more hosts, D a smaller batch: as printed and as they hold."""
    return tuple(_all(shape, demand))


def _all(shape: PoolShape, demand: Demand) -> Iterator[Remedy]:
    tasks, runs = max(PUBLIC_MAX_TASKS, demand.groups), max(PUBLIC_MAX_RUNS, demand.samples)
    one = PoolShape(1, tasks, runs, shape.hash_routing)
    bigger = f"--set sandbox.max_tasks={tasks} --set sandbox.max_runs_per_task={runs}"
    yield Remedy("A", f"one server of {tasks} tasks × {runs} runs", one, demand, bigger)
    many = max(2, math.ceil(demand.leases / (shape.max_tasks * shape.max_runs_per_task)))
    more = PoolShape(many, shape.max_tasks, shape.max_runs_per_task, shape.hash_routing)
    yield Remedy("B", f"{many} servers of {shape.max_tasks} × {shape.max_runs_per_task} on one host", more, demand)
    if shape.max_runs_per_task < demand.samples:
        wide = PoolShape(many, shape.max_tasks, demand.samples, shape.hash_routing)
        yield Remedy("B'", f"{many} servers of {shape.max_tasks} × {demand.samples} on one host", wide, demand)
    hosts = PoolShape(2, tasks, runs, shape.hash_routing)
    yield Remedy("C", f"2 or more hosts of {tasks} × {runs} each", hosts, demand)
    fewer = Demand(max(1, shape.leases // demand.samples), demand.samples)
    yield Remedy("D", f"batch {fewer.groups} × {fewer.samples} samples", shape, fewer)
    if shape.max_runs_per_task < demand.samples:
        small = Demand(min(demand.groups, shape.servers * shape.max_tasks), shape.max_runs_per_task)
        less = f"--set rollout.batch_size={small.groups} --set rollout.samples_per_prompt={small.samples}"
        yield Remedy("D'", f"batch {small.groups} × {small.samples} samples", shape, small, less)
