"""Closing a lease waits for what still runs under it, and can itself be cancelled meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from t1cli.terminal.sandbox.pool.keeper import LeaseKeeper
from t1cli.terminal.sandbox.pool.settings import PoolTimes


def test_a_closer_that_is_cancelled_stops_though_what_it_waits_for_does_not() -> None:
    async def whole() -> None:
        ending, release = asyncio.Event(), asyncio.Event()

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await release.wait()

        work = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        lease = SimpleNamespace(lease_id="one", lock=asyncio.Lock(), sandbox=None, results={"request": work})
        keeper = SimpleNamespace(settings=SimpleNamespace(times=PoolTimes()))
        closing = asyncio.ensure_future(LeaseKeeper._closed(keeper, lease))  # type: ignore[arg-type]
        await ending.wait()
        closing.cancel()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(whole())
