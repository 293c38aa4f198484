"""One piece of work at a time per key: whoever asks meanwhile gets the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs `work` once per key and keeps what it returned; a failure is not kept."""

    def __init__(self, work: Callable[[str], Awaitable[T]]) -> None:
        self._work = work
        self._running: dict[str, asyncio.Future[T]] = {}

    async def get(self, key: str) -> T:
        """The result for `key`; a caller that is cancelled leaves the work to the others."""
        if key not in self._running:
            task = asyncio.ensure_future(self._work(key))
            self._running[key] = task
            task.add_done_callback(lambda done: self._forget_failure(key, done))
        return await asyncio.shield(self._running[key])

    def _forget_failure(self, key: str, done: asyncio.Future[T]) -> None:
        if (done.cancelled() or done.exception() is not None) and self._running.get(key) is done:
            del self._running[key]
