"""Small terminal tasks from a seed, and siblings of them with other names.

`python -m t1cli.terminal.tasks.generator OUT --count 60 --seed 0` writes a pool in Harbor layout.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from t1cli.terminal.tasks.harbor_writer import HarborFiles, write_files
from t1cli.terminal.tasks.steps import PATTERNS, Check, Draw, Step, make_directory_and_file, make_step
from t1cli.terminal.tasks.words import WORDS

__all__ = [
    "DIFFICULTIES",
    "FAMILIES",
    "PATTERNS",
    "WORDS",
    "GeneratedTask",
    "generate",
    "generate_pool",
    "sibling",
    "write_harbor",
]

FAMILIES: dict[str, tuple[str, ...]] = {
    "write": ("write",),
    "directories": ("mkdir", "nested"),
    "files": ("copy", "move", "delete"),
    "append": ("append",),
    "select": ("count", "head", "tail", "grep", "sort"),
    "permissions": ("mode",),
    "replace": ("replace",),
    "combo": ("write", "mkdir", "copy", "move", "append", "count", "grep", "mode", "replace"),
}
"""Family to the step kinds it draws from."""

DIFFICULTIES = (1, 2, 3)
"""Steps of a task; a combo has one more."""


@dataclass(frozen=True)
class GeneratedTask:
    """A task with its one canonical solution."""

    name: str
    family: str
    difficulty: int
    instruction: str
    """Numbered sentences, one a line; sentence k asks for what solution command k does."""
    setup_files: dict[str, str]
    """Relative path to content, present before the agent starts."""
    solution: tuple[str, ...]
    """Single-line shell commands, one per turn, run in the working directory."""
    checks: tuple[Check, ...]
    """1 to 8; each is one test that passes or fails by itself."""
    names: tuple[str, ...]
    """Two-word names that occur in it."""


def generate(family: str, difficulty: int, rng: random.Random, exclude: Collection[str] = ()) -> GeneratedTask:
    """A task whose names are outside `exclude`; the same arguments and random state give the same task."""
    if family not in FAMILIES or difficulty not in DIFFICULTIES:
        raise ValueError(f"no task of family {family!r} and difficulty {difficulty!r}")
    draw = Draw(rng, set(exclude))
    steps = _steps(family, difficulty, draw)
    setup = {path: content for step in steps for path, content in step.setup_files.items()}
    return GeneratedTask(
        name=f"{family}-{difficulty}-{draw.names[0].replace('_', '-')}",
        family=family,
        difficulty=difficulty,
        instruction="".join(f"{number}. {step.sentence}\n" for number, step in enumerate(steps, 1)),
        setup_files=setup,
        solution=tuple(step.command for step in steps),
        checks=tuple(
            Check(f"step_{number}_{check.name}", check.asserts)
            for number, step in enumerate(steps, 1)
            for check in step.checks
        ),
        names=tuple(draw.names),
    )


def sibling(rng: random.Random, exclude_names: Collection[str]) -> GeneratedTask:
    """A task of any family and difficulty that shares no name with `exclude_names`."""
    return generate(rng.choice(tuple(FAMILIES)), rng.choice(DIFFICULTIES), rng, exclude_names)


def generate_pool(count: int, seed: int) -> tuple[GeneratedTask, ...]:
    """`count` tasks over all families and difficulties in turn; no name occurs in two of them."""
    rng = random.Random(seed)
    families = tuple(FAMILIES)
    tasks: list[GeneratedTask] = []
    used: set[str] = set()
    for index in range(count):
        difficulty = DIFFICULTIES[(index // len(families)) % len(DIFFICULTIES)]
        task = generate(families[index % len(families)], difficulty, rng, used)
        used.update(task.names)
        tasks.append(task)
    return tuple(tasks)


def write_harbor(task: GeneratedTask, directory: Path) -> Path:
    """Write a task as `directory/<name>` in Harbor layout; returns that path, which must not exist."""
    path = directory / task.name
    files = HarborFiles(
        name=task.name,
        family=task.family,
        difficulty=task.difficulty,
        instruction=task.instruction,
        setup_files=task.setup_files,
        solution=task.solution,
        checks=tuple((check.name, check.asserts) for check in task.checks),
    )
    write_files(files, path)
    return path


def _steps(family: str, difficulty: int, draw: Draw) -> tuple[Step, ...]:
    kinds = FAMILIES[family]
    if family != "combo":
        return tuple(make_step(draw.rng.choice(kinds), draw) for _ in range(difficulty))
    if difficulty == 1:
        return make_directory_and_file(draw)
    free = [make_step(kind, draw) for kind in draw.rng.sample(kinds, difficulty - 1)]
    return (*make_directory_and_file(draw), *free)


def main(arguments: list[str] | None = None) -> None:
    """Write a pool; stdout names each task's directory."""
    parser = argparse.ArgumentParser(description="Write a pool of small terminal tasks in Harbor layout.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for task in generate_pool(options.count, options.seed):
        print(write_harbor(task, options.out))


if __name__ == "__main__":
    main()
