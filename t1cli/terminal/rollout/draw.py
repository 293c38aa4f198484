"""Which tasks a rollout launches: a pure function of the seed and of where the draw stands, so that a resume draws the
same ones.

The tasks of a campaign are an endless stream of epochs, each a seeded permutation of the pool; a place is an index
in it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from t1cli.terminal.tasks.task import Task


def draw(tasks: Sequence[Task], *, rollout_id: int, count: int, seed: int, shuffle: bool = True) -> tuple[Task, ...]:
    """The tasks of a rollout where every rollout has `count` places of its own."""
    places = range(rollout_id * count, (rollout_id + 1) * count)
    return tasks_at(tasks, places, seed=seed, shuffle=shuffle)


def tasks_at(tasks: Sequence[Task], places: Sequence[int], *, seed: int, shuffle: bool = True) -> tuple[Task, ...]:
    """The tasks at these places of the stream."""
    if not tasks:
        raise ValueError("no tasks to draw from")
    epochs = {place // len(tasks) for place in places}
    order_of = {epoch: _order(len(tasks), epoch, seed if shuffle else None) for epoch in epochs}
    return tuple(tasks[order_of[place // len(tasks)][place % len(tasks)]] for place in places)


def _order(num_tasks: int, epoch: int, seed: int | None) -> list[int]:
    order = list(range(num_tasks))
    if seed is not None:
        random.Random(f"{seed}:{epoch}").shuffle(order)
    return order
