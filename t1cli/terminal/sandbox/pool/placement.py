"""Which of several servers a lease is asked of: the one with most room, by preference one that has the task."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from t1cli.terminal.sandbox.pool.calls import ServerCalls

STATUS_SECONDS = 2.0
"""A status is asked for again when it is older than this."""


@dataclass(eq=False)
class Server:
    """One pool server as this client sees it."""

    calls: ServerCalls
    is_ours: bool = True
    """Speaks the routes under /v1; otherwise only those of OpenClaw-RL's pool."""
    max_tasks: int = 1
    max_runs_per_task: int = 1
    slots: int = 1
    idle_seconds: float = 600.0
    free: int = 0
    pending_closes: int = 0
    """Leases of an older server that are given back and whose machines still live."""
    waiting: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    """Leases by task, as far as known."""
    seen_seconds: float = -1e9
    asked: int = 0
    """Requests of this client that wait for an answer; a status knows them only later."""

    @property
    def is_stale(self) -> bool:
        return time.monotonic() - self.seen_seconds > STATUS_SECONDS

    def saw(self, status: dict[str, Any]) -> None:
        """Take over what /status says. Raises ValueError for something that is no pool's status."""
        pool = status.get("pool")
        if not isinstance(pool, dict):
            raise ValueError("no `pool` in /status")
        self.is_ours = "t1_api" in status
        self.max_tasks, self.max_runs_per_task = int(pool["max_tasks"]), int(pool["max_runs_per_task"])
        self.slots = int(pool.get("capacity", self.max_tasks * self.max_runs_per_task))
        # A lease that is closing still holds its machine, whatever an older server's own count says.
        self.pending_closes = int(pool.get("pending_closes", 0))
        used = int(pool.get("total_active_runs", 0)) + self.pending_closes
        self.free = int(pool.get("free", max(0, self.slots - used)))
        self.waiting = int(pool.get("waiting", 0))
        self.idle_seconds = float(pool.get("idle_seconds", 600.0))
        found = pool.get("tasks")
        counts = found.items() if isinstance(found, dict) else ()
        self.tasks = {str(key): int(value.get("active_runs", 0)) for key, value in counts if isinstance(value, dict)}
        self.seen_seconds = time.monotonic()

    def has_room(self, task: str) -> bool:
        """Whether a lease of this task would probably be granted at once."""
        runs = self.tasks.get(task, 0)
        return self.free - self.asked > 0 and (
            runs < self.max_runs_per_task if runs else len(self.tasks) < self.max_tasks
        )


def best_first(servers: list[Server], task: str) -> list[Server]:
    """Servers that are not pausing, best first; those that pause follow, the one that is back first in front."""
    return sorted(servers, key=lambda server: _rank(server, task))


def _rank(server: Server, task: str) -> tuple[float, ...]:
    room = server.has_room(task)
    load = (server.waiting + server.asked - server.free) / max(1, server.slots)
    # Affinity is a hint: it decides between servers that both have room, never against one that has.
    return (server.calls.pause.left_seconds, not room, not (room and task in server.tasks), load)
