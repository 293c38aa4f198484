"""What a pool server may hold and how long it waits for what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class QueueLimits:
    """How many leases exist at once and how many requests may wait for one."""

    max_tasks: int = 16
    """Different tasks at once."""
    max_runs_per_task: int = 8
    """Leases of one task at once."""
    capacity: int | None = None
    """Leases at once; null means max_tasks x max_runs_per_task."""
    max_waiting: int = 4096
    """Requests that may wait; one more is answered 429."""
    patience_seconds: float = 300.0
    """After this a request that lacks a task place gets one: a task in use gets no new leases until it has ended."""

    @property
    def slots(self) -> int:
        """Leases at once, all limits together."""
        both = self.max_tasks * self.max_runs_per_task
        return both if self.capacity is None else min(both, self.capacity)


@dataclass(frozen=True)
class PoolTimes:
    """Every wait of the server, in seconds."""

    wait_seconds: float = 600.0
    """A request waits this long in the queue unless it says otherwise."""
    idle_seconds: float = 600.0
    """A lease without operation or heartbeat for this long is closed; one with an operation in flight never is."""
    undelivered_seconds: float = 30.0
    """A lease whose answer reached nobody is kept this long for a repeated request."""
    reap_every_seconds: float = 5.0
    prune_every_seconds: float = 1800.0
    create_seconds: float = 120.0
    close_seconds: float = 60.0
    command_seconds: float = 20.0
    """Limit of a tool's shell command, as agents of the older interface know it."""
    drain_seconds: float = 600.0
    """After SIGTERM live leases may go on this long."""


@dataclass(frozen=True)
class PoolSettings:
    """One pool server."""

    directory: Path
    """Journal, sandbox records and verifier output."""
    limits: QueueLimits = field(default_factory=QueueLimits)
    times: PoolTimes = field(default_factory=PoolTimes)
    dataset: Path | None = None
    """Directory that task paths of `/reset` lie in; without one only plain sandboxes are served."""
    max_concurrent_closes: int = 10
    tokens: tuple[tuple[str, str], ...] = ()
    """Name and secret of each client; none means that no token is asked for."""
