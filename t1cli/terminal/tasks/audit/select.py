"""The N best of a pool, spread over its families, each with the reason why it was taken or left."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from t1cli.terminal.tasks.audit.audit_pool import PoolAudit, TaskAudit

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Choice:
    """One task of the pool."""

    task: str
    taken: bool
    reason: str


def select(pool: PoolAudit, count: int) -> tuple[Choice, ...]:
    """Choose `count` accepted tasks: families in turn, the best of each first. Taken ones first, then by score.

    Of accepted tasks whose instructions differ in numbers alone, only the best stands for selection. Fewer than `count`
    are taken when fewer are accepted.
    """
    different, doubles = _without_doubles(sorted(pool.accepted, key=_best_first))
    order = list(_in_turn(different))
    ranks = _ranks(different)
    taken = [Choice(t.name, True, f"score {t.score:.2f}, {ranks[t.name]}") for t in order[:count]]
    left = [Choice(t.name, False, f"score {t.score:.2f}, {ranks[t.name]}; {count} are taken") for t in order[count:]]
    left += [
        Choice(name, False, f"the same instruction as {first}, but for numbers") for name, first in doubles.items()
    ]
    others = [task for task in pool.tasks if task.state(pool.score_min) != "accepted"]
    left += [Choice(task.name, False, why_not(task, pool.score_min)) for task in others]
    return (*taken, *left)


def why_not(task: TaskAudit, score_min: float) -> str:
    """Why a task is not accepted, in one line."""
    match task.state(score_min):
        case "broken":
            return f"broken: {task.broken[0]}"
        case "rejected":
            return f"rejected for {', '.join(task.rejections)}"
        case "unjudged":
            return f"not judged: {task.unjudged}"
        case "below":
            return f"score {task.score:.2f} is below {score_min:g}"
    return ""


def _best_first(task: TaskAudit) -> tuple[float, str]:
    return -task.score, task.name


def _without_doubles(tasks: Sequence[TaskAudit]) -> tuple[list[TaskAudit], dict[str, str]]:
    first: dict[str, str] = {}
    doubles: dict[str, str] = {}
    for task in tasks:
        key = _NUMBER.sub("0", task.instruction.casefold())
        if key in first:
            doubles[task.name] = first[key]
        first.setdefault(key, task.name)
    return [task for task in tasks if task.name not in doubles], doubles


def _families(tasks: Sequence[TaskAudit]) -> dict[str, list[TaskAudit]]:
    families: dict[str, list[TaskAudit]] = defaultdict(list)
    for task in tasks:
        families[task.family].append(task)
    return families


def _in_turn(tasks: Sequence[TaskAudit]) -> Iterator[TaskAudit]:
    """The best of every family, then the second of every family, …; within a turn the better first."""
    families = _families(tasks)
    for turn in range(max((len(members) for members in families.values()), default=0)):
        yield from sorted((members[turn] for members in families.values() if turn < len(members)), key=_best_first)


def _ranks(tasks: Sequence[TaskAudit]) -> dict[str, str]:
    return {
        task.name: f"{place} of {len(members)} in family {family}"
        for family, members in _families(tasks).items()
        for place, task in enumerate(members, 1)
    }
