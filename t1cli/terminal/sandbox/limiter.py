"""A limit on how many of something run at once that works from any event loop."""

from __future__ import annotations

import asyncio
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
