"""The line: limits are never exceeded, nobody starves, and the order is fair."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.terminal.sandbox.pool.settings import QueueLimits
from t1cli.terminal.sandbox.pool.waiting import Line, LineFull, Usage, Waiter


def drain(limits: QueueLimits, waiters: list[Waiter], hold: int = 3) -> list[tuple[int, Waiter]]:
    """Serve everybody in ticks; a lease lasts `hold` ticks. Returns when each was granted."""
    line, usage = Line(limits), Usage()
    for waiter in waiters:
        line.join(waiter)
    granted: list[tuple[int, Waiter]] = []
    ends: list[tuple[int, Waiter]] = []
    for tick in range(10_000):
        for end, waiter in [entry for entry in ends if entry[0] <= tick]:
            usage.give_back(waiter.task, waiter.group)
            ends.remove((end, waiter))
        while (waiter := line.next(usage, now_seconds=float(tick))) is not None:
            usage.take(waiter.task, waiter.group)
            granted.append((tick, waiter))
            ends.append((tick + hold, waiter))
            assert usage.total <= limits.slots and len(usage.by_task) <= limits.max_tasks
            assert max(usage.by_task.values()) <= limits.max_runs_per_task
        if not len(line):
            return granted
    raise AssertionError(f"{len(line)} still wait")


@given(
    groups=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    tasks=st.integers(1, 8),
    runs=st.integers(1, 8),
    capacity=st.integers(1, 40),
)
@settings(max_examples=150, deadline=None)
def test_everybody_is_served_within_the_limits_and_in_order_within_a_group(
    groups: list[int], tasks: int, runs: int, capacity: int
) -> None:
    waiters = [
        Waiter(f"g{group}", f"t{group % 7}", arrived_seconds=-100.0 + number / 1000)
        for group, count in enumerate(groups)
        for number in range(count)
    ]
    limits = QueueLimits(tasks, runs, capacity, patience_seconds=20.0)
    granted = drain(limits, waiters)
    assert len(granted) == len(waiters)
    for group in range(len(groups)):
        order = [waiter.arrived_seconds for _, waiter in granted if waiter.group == f"g{group}"]
        assert order == sorted(order)


def test_groups_of_one_task_get_equal_shares_however_many_each_asked_for() -> None:
    waiters = [Waiter("many", "t", 0.0) for _ in range(30)] + [Waiter("few", "t", 1.0) for _ in range(4)]
    granted = drain(QueueLimits(1, 4), waiters)
    first_eight = Counter(waiter.group for _, waiter in granted[:8])
    assert first_eight == {"many": 4, "few": 4}


def test_a_task_place_drains_for_whoever_has_lost_patience() -> None:
    """Two tasks hold both task places and have hundreds waiting; a third gets its turn all the same."""
    crowd = [Waiter(task, task, 0.0) for task in ("a", "b") for _ in range(200)]
    granted = drain(QueueLimits(2, 2, patience_seconds=10.0), [*crowd, Waiter("c", "c", 0.1)])
    turn = next(tick for tick, waiter in granted if waiter.group == "c")
    assert turn <= 16


def test_the_line_is_bounded_and_can_be_left() -> None:
    line = Line(QueueLimits(max_waiting=2))
    first, second = Waiter("g", "t", 0.0), Waiter("g", "t", 1.0)
    line.join(first)
    line.join(second)
    with pytest.raises(LineFull):
        line.join(Waiter("g", "t", 2.0))
    assert line.leave(first) and not line.leave(first)
    assert line.next(Usage(), now_seconds=0.0) is second
