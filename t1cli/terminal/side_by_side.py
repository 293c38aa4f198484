"""Several pieces of work at once, none of which outlives the wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def side_by_side(works: Iterable[Coroutine[Any, Any, T]]) -> tuple[T, ...]:
    """Every result, in order; the first failure is raised.

    `asyncio.gather` leaves behind what still runs when one fails or is cancelled: sandboxes would be closed while their
    directory is being removed. Here everything has ended when this returns, however it returns.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            # Once only: a second cancellation would break into the clean-up that the first one began.
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
