"""Which tasks a rollout launches: a pure function of the seed and the rollout id, so a resume draws the same ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

from t1cli.terminal.tasks.task import Task


def draw(tasks: Sequence[Task], *, rollout_id: int, count: int, seed: int, shuffle: bool = True) -> tuple[Task, ...]:
    """`count` tasks: the slice of an endless stream of epochs, each a seeded permutation of the pool."""
    if not tasks:
        raise ValueError("no tasks to draw from")
    positions = range(rollout_id * count, (rollout_id + 1) * count)
    epochs = {position // len(tasks) for position in positions}
    order_of = {epoch: _order(len(tasks), epoch, seed if shuffle else None) for epoch in epochs}
    return tuple(tasks[order_of[position // len(tasks)][position % len(tasks)]] for position in positions)


def _order(num_tasks: int, epoch: int, seed: int | None) -> list[int]:
    order = list(range(num_tasks))
    if seed is not None:
        random.Random(f"{seed}:{epoch}").shuffle(order)
    return order
