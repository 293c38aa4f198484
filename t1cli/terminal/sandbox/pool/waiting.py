"""The line in front of a pool: bounded, first come first served within a group, fair between groups (catalogue S2)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from t1cli.terminal.sandbox.pool.settings import QueueLimits

_REMEMBERED_GROUPS = 4096


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
        self._draining: str | None = None
        self._served: dict[str, int] = {}
        self._grants = 0

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
        closed = self._closed_task(usage, now_seconds)
        for waiter in self._by_turn(usage):
            if waiter.task != closed and self._fits(waiter.task, usage):
                self.leave(waiter)
                self._note_served(waiter.group)
                return waiter
        return None

    def _by_turn(self, usage: Usage) -> Iterator[Waiter]:
        def turn(group: str) -> tuple[float, ...]:
            # Of two that hold equally much: whose last grant is longest ago, then who has waited longest.
            return usage.by_group[group], self._served.get(group, 0), self._groups[group][0].arrived_seconds

        for group in sorted(self._groups, key=turn):
            yield from tuple(self._groups[group])

    def _note_served(self, group: str) -> None:
        self._grants += 1
        self._served.pop(group, None)
        self._served[group] = self._grants
        if len(self._served) > _REMEMBERED_GROUPS:
            del self._served[next(iter(self._served))]

    def _fits(self, task: str, usage: Usage) -> bool:
        runs = usage.by_task[task]
        return runs < self.limits.max_runs_per_task and (runs > 0 or len(usage.by_task) < self.limits.max_tasks)

    def _closed_task(self, usage: Usage, now_seconds: float) -> str | None:
        """A task that gets no new lease, so that its place comes free for a group whose patience is over."""
        if len(usage.by_task) < self.limits.max_tasks or not self._starving(usage, now_seconds):
            self._draining = None
        elif self._draining not in usage.by_task:
            # The one that ends soonest; kept until it is gone, or several would drain at once.
            self._draining = min(usage.by_task, key=lambda task: (usage.by_task[task], task))
        return self._draining

    def _starving(self, usage: Usage, now_seconds: float) -> bool:
        heads = (waiting[0] for waiting in self._groups.values())
        # Runs of a task in use end by themselves; only a task place can be held by others for ever.
        return any(
            usage.by_task[head.task] == 0 and now_seconds - head.arrived_seconds >= self.limits.patience_seconds
            for head in heads
        )
