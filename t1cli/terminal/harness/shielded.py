"""Work that must end even while its task is being cancelled, each piece with its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def finish(work: Coroutine[None, None, T], *, seconds: float) -> T:
    """The result of `work`, run to its end or its deadline whatever cancels the caller meanwhile.

    Raises TimeoutError at the deadline. A cancellation that arrived on the way is raised afterwards.
    """
    task = asyncio.ensure_future(asyncio.wait_for(work, seconds))
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        _mark_seen(task)
        raise asyncio.CancelledError
    return task.result()


def _mark_seen(task: asyncio.Future[T]) -> None:
    # Without this asyncio reports an exception that was never retrieved.
    if not task.cancelled():
        task.exception()
