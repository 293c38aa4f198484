"""A rollout ends with the server it talks to, and is never left running."""

from __future__ import annotations

import asyncio

import pytest

from t1cli.embedded.campaign_work import until_ended
from t1cli.errors import T1Error


class Work:
    """Something that takes a while and tidies up when it is cancelled."""

    def __init__(self) -> None:
        self.ended_by = ""

    async def run(self, seconds: float) -> int:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            self.ended_by = "cancellation"
            raise
        self.ended_by = "itself"
        return 7


async def never() -> None:
    await asyncio.Event().wait()


async def dies() -> None:
    await asyncio.sleep(0.01)
    raise T1Error("the server is gone")


def test_a_result_passes_through() -> None:
    async def scenario() -> int:
        return await until_ended(Work().run(0.01), asyncio.ensure_future(never()))

    assert asyncio.run(scenario()) == 7


def test_the_servers_end_cancels_and_is_raised() -> None:
    work = Work()

    async def scenario() -> None:
        await until_ended(work.run(60), asyncio.ensure_future(dies()))

    with pytest.raises(T1Error, match="server is gone"):
        asyncio.run(scenario())
    assert work.ended_by == "cancellation"


def test_a_cancellation_waits_for_the_work_to_tidy_up() -> None:
    work = Work()

    async def scenario() -> None:
        task = asyncio.ensure_future(until_ended(work.run(60), asyncio.ensure_future(never())))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.ended_by == "cancellation"

    asyncio.run(scenario())
