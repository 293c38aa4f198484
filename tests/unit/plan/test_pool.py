"""Leases under both limits, against a slow simulation."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from t1cli.plan.pool import Demand, PoolShape, chance_all_tasks_placed, granted_leases

SMALL = st.integers(1, 5)


def simulate(shape: PoolShape, demand: Demand) -> int:
    """Ask for one lease after another, task by task, as a pool would answer."""
    held: list[dict[int, int]] = [{} for _ in range(shape.servers)]
    granted = 0
    for group in range(demand.groups):
        for _ in range(demand.samples):
            own = [group % shape.servers] if shape.hash_routing else range(shape.servers)
            # A task's next lease goes where the task already runs, then to the emptiest server.
            order = sorted(own, key=lambda server: (group not in held[server], len(held[server])))
            for server in order:
                runs = held[server].get(group, 0)
                room = group in held[server] or len(held[server]) < shape.max_tasks
                if room and runs < shape.max_runs_per_task:
                    held[server][group] = runs + 1
                    granted += 1
                    break
    return granted


@given(servers=SMALL, tasks=SMALL, runs=SMALL, groups=st.integers(1, 12), samples=SMALL)
def test_hash_routing_grants_what_a_simulation_grants(servers, tasks, runs, groups, samples):
    shape, demand = PoolShape(servers, tasks, runs), Demand(groups, samples)
    assert granted_leases(shape, demand) == simulate(shape, demand)


@given(servers=SMALL, tasks=SMALL, runs=SMALL, groups=st.integers(1, 12), samples=SMALL)
def test_free_slots_never_grant_less_than_hashing_nor_more_than_exist(servers, tasks, runs, groups, samples):
    demand = Demand(groups, samples)
    free = granted_leases(PoolShape(servers, tasks, runs, hash_routing=False), demand)
    hashed = granted_leases(PoolShape(servers, tasks, runs), demand)
    assert free <= min(demand.leases, servers * tasks * runs)
    if hashed == demand.leases:
        assert free == demand.leases


@given(servers=st.integers(1, 3), tasks=st.integers(1, 4), groups=st.integers(1, 6))
def test_chance_of_placement_equals_counting_every_hash(servers, tasks, groups):
    hashes = list(itertools.product(range(servers), repeat=groups))
    placed = sum(all(one.count(server) <= tasks for server in range(servers)) for one in hashes)
    assert abs(chance_all_tasks_placed(PoolShape(servers, tasks, 1), groups) - placed / len(hashes)) < 1e-12


def test_the_postmortems_remedies_b_and_d():
    assert granted_leases(PoolShape(4, 8, 4), Demand(16, 8)) == 64
    assert granted_leases(PoolShape(1, 8, 4), Demand(4, 8)) == 16
