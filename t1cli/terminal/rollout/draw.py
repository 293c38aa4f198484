"""Which tasks a rollout launches: a pure function of the seed and of where the draw stands, so that a resume draws the
same ones.

The tasks of a campaign are an endless stream of epochs, each a seeded permutation of the pool; a position is an index
in it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from t1cli.terminal.tasks.task import Task


def draw(tasks: Sequence[Task], *, rollout_id: int, count: int, seed: int, shuffle: bool = True) -> tuple[Task, ...]:
    """The tasks of a rollout where every rollout has `count` positions of its own."""
    positions = range(rollout_id * count, (rollout_id + 1) * count)
    return tasks_at(tasks, positions, seed=seed, shuffle=shuffle)


def tasks_at(tasks: Sequence[Task], positions: Sequence[int], *, seed: int, shuffle: bool = True) -> tuple[Task, ...]:
    """The tasks at these positions of the stream."""
    if not tasks:
        raise ValueError("no tasks to draw from")
    epochs = {position // len(tasks) for position in positions}
    order_of = {epoch: _order(len(tasks), epoch, seed if shuffle else None) for epoch in epochs}
    return tuple(tasks[order_of[position // len(tasks)][position % len(tasks)]] for position in positions)


def _order(num_tasks: int, epoch: int, seed: int | None) -> list[int]:
    order = list(range(num_tasks))
    if seed is not None:
        random.Random(f"{seed}:{epoch}").shuffle(order)
    return order
