"""Places and pace that several event loops may share: no primitive here is bound to one loop.

An asyncio lock bound to the loop that first used it makes every other loop fail; an evaluation that runs beside
training in its own loop then loses most of its trials.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A fixed number of places, handed out in the order asked for, across event loops and threads (catalogue S7)."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity {capacity}, expected at least 1")
        self.capacity = capacity
        self._free = capacity
        self._lock = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def in_use(self) -> int:
        """Places that are taken now."""
        return self.capacity - self._free

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """One place for the length of the block."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    async def acquire(self) -> None:
        """Wait for a place; every acquire is followed by one release."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                return
            turn = (loop, loop.create_future())
            self._waiting.append(turn)
        try:
            await turn[1]
        except asyncio.CancelledError:
            with self._lock:
                still_waiting = turn in self._waiting
                if still_waiting:
                    self._waiting.remove(turn)
            if not still_waiting:
                # The place was already passed on to this waiter.
                self.release()
            raise

    def release(self) -> None:
        """Give a place back, or on to whoever has waited longest."""
        with self._lock:
            while self._waiting:
                loop, future = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(_wake, future)
                except RuntimeError:
                    # That loop is closed; its waiter is gone with it.
                    continue
                return
            self._free += 1


class Pace:
    """A token bucket of size one: at most `per_second` passes, in the order asked for; None never waits.

    (catalogue S6)
    """

    def __init__(self, per_second: float | None) -> None:
        self._interval_seconds = 0.0 if per_second is None else 1.0 / per_second
        self._lock = threading.Lock()
        self._next = 0.0
        self._passed = float("-inf")

    async def take(self) -> float:
        """Wait for this caller's pass; returns the seconds waited."""
        asked = time.monotonic()
        with self._lock:
            at = max(asked, self._next)
            self._next = at + self._interval_seconds
        await asyncio.sleep(at - asked)
        return at - asked

    async def settle(self) -> None:
        """Right before the creating call: a loop that was held up wakes several at once, which would be a burst."""
        while self._interval_seconds and (wait_seconds := self._pass()) > 0:
            await asyncio.sleep(wait_seconds)

    def _pass(self) -> float:
        """Seconds until the next pass; 0 when this one is it."""
        with self._lock:
            now = time.monotonic()
            left_seconds = self._passed + self._interval_seconds - now
            if left_seconds <= 0:
                self._passed = now
            return max(0.0, left_seconds)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
