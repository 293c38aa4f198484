"""One lease while it lives: whose it is, its sandbox, and which operations are running on it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from t1cli.terminal.sandbox.pool.refusal import unknown_lease
from t1cli.terminal.sandbox.sandbox import Sandbox
from t1cli.terminal.tasks.task import Task

REMEMBERED = 64
"""Results of operations that are kept per lease for repeated requests."""


@dataclass(frozen=True)
class LeaseRequest:
    """Who asks for a lease, and what for."""

    task: str
    group: str
    request_id: str = ""
    """The same id never gets two leases at once; empty for none."""
    owner: str = ""
    """`run/pid/start` of the asking process, for sweeps."""
    tenant: str = ""
    """Name of the token that asked."""
    wait_seconds: float | None = None
    lease_seconds: float | None = None
    """Longest life of the lease; null means as long as it is used."""


@dataclass(eq=False)
class PoolLease:
    """A granted lease."""

    lease_id: str
    request: LeaseRequest
    granted_seconds: float = field(default_factory=time.monotonic)
    last_used_seconds: float = field(default_factory=time.monotonic)
    delivered: bool = False
    """Whether somebody has received the answer that grants it."""
    in_flight: int = 0
    created: int = 0
    """Sandboxes made for this lease so far."""
    sandbox: Sandbox | None = None
    task: Task | None = None
    closing: asyncio.Future[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the sandbox is replaced."""
    results: OrderedDict[str, asyncio.Task[Any]] = field(default_factory=OrderedDict)
    undelivered: set[str] = field(default_factory=set)
    """Results that nobody has received yet."""

    @contextmanager
    def busy(self) -> Iterator[None]:
        """An operation is running: until it ends the lease is not idle, however long it takes."""
        self.in_flight += 1
        self.last_used_seconds = time.monotonic()
        try:
            yield
        finally:
            self.in_flight -= 1
            self.last_used_seconds = time.monotonic()

    def expired(self, *, idle_seconds: float, undelivered_seconds: float) -> bool:
        """Whether nobody can want it any more."""
        if self.in_flight or self.closing is not None:
            return False
        now = time.monotonic()
        longest = self.request.lease_seconds
        limit = idle_seconds if self.delivered else min(idle_seconds, undelivered_seconds)
        return now - self.last_used_seconds > limit or (longest is not None and now - self.granted_seconds > longest)

    async def once(self, key: str, work: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
        """The result of `work`, run once per key; True when an earlier run of the same key answered.

        The run goes on when its caller is cancelled, so that a repeated request finds it. Raises PoolRefusal 404 when
        the lease was closed meanwhile.
        """
        joined = key in self.results
        if not joined:
            self.results[key] = asyncio.ensure_future(self._guarded(work))
            while len(self.results) > REMEMBERED and next(iter(self.results.values())).done():
                self.undelivered.discard(self.results.popitem(last=False)[0])
        self.undelivered.add(key)
        running = self.results[key]
        try:
            return await asyncio.shield(running), joined
        except asyncio.CancelledError:
            if running.cancelled() and self.closing is not None:
                raise unknown_lease(self.lease_id) from None
            raise

    def delivered_result(self, key: str) -> None:
        """The answer for `key` has been handed to the connection."""
        self.undelivered.discard(key)

    def forget(self, key: str) -> None:
        """Let the next request of the same key run anew."""
        self.results.pop(key, None)
        self.undelivered.discard(key)

    async def _guarded(self, work: Callable[[], Awaitable[Any]]) -> Any:
        with self.busy():
            return await work()
