"""How many sandboxes live at once, and how fast they are created; for any event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from types import TracebackType
from weakref import WeakKeyDictionary


class LoopLimiter:
    """`async with limiter:` lets `limit` through at once, counted per event loop (catalogue S7).

    asyncio's primitives belong to the loop that first waited on them; one shared over loops raises in all others.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def acquire(self) -> None:
        """Wait for a place."""
        await self._semaphore().acquire()

    def release(self) -> None:
        """Give a place back, from the loop that took it."""
        self._semaphore().release()

    def _semaphore(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self._semaphores:
            self._semaphores[loop] = asyncio.Semaphore(self.limit)
        return self._semaphores[loop]


class CreationPace:
    """Spreads creations over time; null never waits."""

    def __init__(self, per_second: float | None) -> None:
        self._interval_seconds = 0.0 if per_second is None else 1.0 / per_second
        self._next = 0.0
        self._lock = threading.Lock()

    async def wait(self) -> None:
        """Wait for this caller's turn."""
        with self._lock:
            at = max(self._next, time.monotonic())
            self._next = at + self._interval_seconds
        await asyncio.sleep(max(0.0, at - time.monotonic()))
