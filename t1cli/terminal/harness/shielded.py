"""Work that must end even while its task is being cancelled, each piece with its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LAST_WORD_SECONDS = 1.0
"""What work that is cancelled at its deadline may still take."""


async def finish(work: Coroutine[Any, Any, T], *, seconds: float) -> T:
    """The result of `work`, run to its end or its deadline whatever cancels the caller meanwhile.

    Raises TimeoutError at the deadline. A cancellation that arrived on the way is raised afterwards, instead.
    """
    task = asyncio.ensure_future(work)
    cancelled = await _wait(task, seconds)
    late = not task.done()
    if late:
        task.cancel()
        cancelled = await _wait(task, LAST_WORD_SECONDS) or cancelled
    if cancelled or late:
        task.add_done_callback(_mark_seen)
        raise asyncio.CancelledError if cancelled else TimeoutError(f"not done within {seconds:g} s")
    return task.result()


async def _wait(task: asyncio.Future[T], seconds: float) -> bool:
    """Wait for a task up to a time limit; whether the caller was cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    deadline, cancelled = loop.time() + seconds, False
    while not task.done() and loop.time() < deadline:
        try:
            await asyncio.wait({task}, timeout=deadline - loop.time())
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _mark_seen(task: asyncio.Future[T]) -> None:
    # Without this asyncio reports an exception that nobody retrieved.
    if not task.cancelled():
        task.exception()
