"""A stop of one trial between two turns: it asks the engine for nothing, and its time stands still meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any


class Hold:
    """One trial's. What the trial does in its sandbox goes on; a reply that is being sampled is cut off."""

    def __init__(self) -> None:
        self.times = 0
        """How often it has begun."""
        self._since: float | None = None
        self._before_seconds = 0.0
        self._over, self._idle = asyncio.Event(), asyncio.Event()
        self._over.set()
        self._idle.set()
        self._asking: set[asyncio.Future[Any]] = set()
        self._limits: dict[asyncio.Timeout, float] = {}

    @property
    def is_on(self) -> bool:
        return self._since is not None

    def clock(self) -> float:
        """The event loop's time, less all that was spent on hold."""
        now = asyncio.get_running_loop().time()
        return now - self._before_seconds - (0.0 if self._since is None else now - self._since)

    def begin(self) -> None:
        """Cut off what is being sampled and let nothing more be asked for; nothing when it is on already."""
        if self._since is not None:
            return
        self.times += 1
        self._since = asyncio.get_running_loop().time()
        self._over.clear()
        for asking in self._asking:
            asking.cancel()
        self._arm()

    def end(self) -> None:
        """Let the trial go on; nothing when it is not on hold."""
        if self._since is None:
            return
        self._before_seconds += asyncio.get_running_loop().time() - self._since
        self._since = None
        self._over.set()
        self._arm()

    async def over(self) -> None:
        """Wait until it is not on hold."""
        await self._over.wait()

    async def quiet(self) -> None:
        """Wait until what a beginning cut off has ended and is counted."""
        await self._idle.wait()

    @contextmanager
    def stopping(self, asking: asyncio.Future[Any]) -> Iterator[None]:
        """A request to the engine that the beginning of a hold cancels."""
        self._asking.add(asking)
        self._idle.clear()
        try:
            yield
        finally:
            self._asking.discard(asking)
            if not self._asking:
                self._idle.set()

    @asynccontextmanager
    async def until(self, deadline: float) -> AsyncIterator[None]:
        """Raises TimeoutError when the block still runs at this time of `clock`."""
        async with asyncio.timeout(None) as limit:
            self._limits[limit] = deadline
            self._arm()
            try:
                yield
            finally:
                del self._limits[limit]

    def _arm(self) -> None:
        for limit, deadline in self._limits.items():
            if not limit.expired():
                limit.reschedule(None if self.is_on else deadline + self._before_seconds)


def hold_of(engine: object) -> Hold:
    """The hold that the engine of a trial is under; one that never begins for any other engine."""
    found = getattr(engine, "hold", None)
    return found if isinstance(found, Hold) else Hold()
