"""The line in front of a pool: bounded, first come first served within a group, fair between groups."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from t1cli.terminal.sandbox.pool.settings import QueueLimits


@dataclass(eq=False)
class Waiter:
    """One request for a lease."""

    group: str
    task: str
    arrived_seconds: float


class LineFull(Exception):
    """Too many requests wait already."""


class Usage:
    """What is in use now; a lease counts until its sandbox is really gone."""

    def __init__(self) -> None:
        self.by_task: Counter[str] = Counter()
        self.by_group: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self.by_task.total()

    def take(self, task: str, group: str) -> None:
        """One lease more."""
        self.by_task[task] += 1
        self.by_group[group] += 1

    def give_back(self, task: str, group: str) -> None:
        """One lease less."""
        for counter, key in ((self.by_task, task), (self.by_group, group)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]


class Line:
    """Who waits, and who is next under the limits."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self._groups: dict[str, deque[Waiter]] = {}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._groups.values())

    def join(self, waiter: Waiter) -> None:
        """Wait. Raises LineFull."""
        if len(self) >= self.limits.max_waiting:
            raise LineFull
        self._groups.setdefault(waiter.group, deque()).append(waiter)

    def leave(self, waiter: Waiter) -> bool:
        """Stop waiting; False when it no longer waited."""
        waiting = self._groups.get(waiter.group, deque())
        if waiter not in waiting:
            return False
        waiting.remove(waiter)
        if not waiting:
            del self._groups[waiter.group]
        return True

    def next(self, usage: Usage, *, now_seconds: float) -> Waiter | None:
        """Take out whoever gets the next free place: of the groups that hold least, the one that waits longest."""
        if usage.total >= self.limits.slots:
            return None
        starving = self._starving(usage, now_seconds)
        if starving is not None:
            return None
        for waiter in self._by_turn(usage):
            if self._fits(waiter.task, usage):
                self.leave(waiter)
                return waiter
        return None

    def _by_turn(self, usage: Usage) -> Iterator[Waiter]:
        order = sorted(self._groups.items(), key=lambda item: (usage.by_group[item[0]], item[1][0].arrived_seconds))
        for _, waiting in order:
            yield from tuple(waiting)

    def _fits(self, task: str, usage: Usage) -> bool:
        runs = usage.by_task[task]
        return runs < self.limits.max_runs_per_task and (runs > 0 or len(usage.by_task) < self.limits.max_tasks)

    def _starving(self, usage: Usage, now_seconds: float) -> Waiter | None:
        """The oldest waiter, if its patience is over and it still does not fit: places then drain for it."""
        heads = [waiting[0] for waiting in self._groups.values()]
        oldest = min(heads, key=lambda waiter: waiter.arrived_seconds, default=None)
        if oldest is None or now_seconds - oldest.arrived_seconds < self.limits.patience_seconds:
            return None
        # Runs of its own task end by themselves; only a task place can be held by others for ever.
        blocked = usage.by_task[oldest.task] == 0 and len(usage.by_task) >= self.limits.max_tasks
        return oldest if blocked else None
