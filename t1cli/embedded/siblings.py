"""Tasks like the quickstart's with other names: an endless stream to learn from, and a fixed set to test on."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from t1cli.terminal.tasks.generator import DIFFICULTIES, FAMILIES, GeneratedTask, generate, sibling, write_harbor
from t1cli.terminal.tasks.load import load_task
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.tasks.words import names_in

UNSEEN_SEED = 4242
UNSEEN_TASKS = 60


@dataclass(frozen=True)
class Names:
    """Two-word names that a stream of siblings must avoid."""

    pool: frozenset[str]
    unseen: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.pool | self.unseen


def pool_names(pool: Path) -> frozenset[str]:
    """Every name in a pool's instructions."""
    return frozenset().union(*(names_in(file.read_text(encoding="utf-8")) for file in pool.glob("*/instruction.md")))


def held_out_names(pool: Path) -> Names:
    """What the supervised start must never see: the pool's names, and those of the unseen test set."""
    names = pool_names(pool)
    unseen = frozenset(name for task in unseen_siblings(names) for name in task.names)
    return Names(names, unseen)


def unseen_siblings(exclude: frozenset[str], count: int = UNSEEN_TASKS) -> tuple[GeneratedTask, ...]:
    """The fixed test set: every family and difficulty in turn, none of the excluded names, no name twice."""
    rng, used = random.Random(UNSEEN_SEED), set(exclude)
    tasks: list[GeneratedTask] = []
    for index in range(count):
        family = tuple(FAMILIES)[index % len(FAMILIES)]
        task = generate(family, DIFFICULTIES[(index // len(FAMILIES)) % len(DIFFICULTIES)], rng, used)
        used.update(task.names)
        tasks.append(task)
    return tuple(tasks)


def sibling_stream(seed: int, exclude: frozenset[str], *, difficulty: int | None = None) -> Iterator[GeneratedTask]:
    """Fresh tasks without end, of any family; of one difficulty if given."""
    rng = random.Random(seed)
    while True:
        if difficulty is None:
            yield sibling(rng, exclude)
        else:
            yield generate(rng.choice(tuple(FAMILIES)), difficulty, rng, exclude)


def write_tasks(tasks: tuple[GeneratedTask, ...], directory: Path) -> tuple[Task, ...]:
    """The tasks in Harbor layout below `directory`, loaded from there; equal names get a number."""
    return tuple(load_task(write_harbor(task, directory / f"{index:03d}")) for index, task in enumerate(tasks))


def main(arguments: list[str] | None = None) -> None:
    """Write tasks that share no name with a pool; stdout names each task's directory."""
    parser = argparse.ArgumentParser(description="Write tasks like the quickstart's that share no name with a pool.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--unlike", type=Path, required=True, help="the pool, such as experiments/quickstart/tasks")
    parser.add_argument("--count", type=int, default=UNSEEN_TASKS)
    options = parser.parse_args(arguments)
    for task in unseen_siblings(pool_names(options.unlike), options.count):
        print(write_harbor(task, options.out))


if __name__ == "__main__":
    main()
