"""A paused run: the next rollout waits while the pause request exists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from t1cli.run.directory import RunDirectory

LOOK_SECONDS = 0.2


async def hold_while_paused(
    run: RunDirectory, note: Callable[[str], None], *, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Return when there is no pause request (any more), when the run is asked to stop, or when all is over."""
    if not run.pause_request.exists():
        return
    note(f"paused: {run.pause_request.name} exists")
    while run.pause_request.exists() and not run.stop_request.exists() and not is_over():
        await asyncio.sleep(LOOK_SECONDS)
    note("goes on after a pause")
