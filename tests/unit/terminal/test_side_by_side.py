"""Work side by side: results in order, and nothing that outlives the wait."""

from __future__ import annotations

import asyncio

import pytest

from t1cli.terminal.side_by_side import side_by_side


def test_results_come_in_order() -> None:
    async def one(number: int) -> int:
        for _ in range(3 - number):
            await asyncio.sleep(0)
        return number

    assert asyncio.run(side_by_side(one(number) for number in range(3))) == (0, 1, 2)
    assert asyncio.run(side_by_side(())) == ()


@pytest.mark.parametrize("ends_by", ["failure", "cancellation"])
def test_slow_clean_up_has_ended_when_the_wait_does(ends_by: str) -> None:
    ended: list[int] = []

    async def one(number: int) -> None:
        try:
            if number == 0 and ends_by == "failure":
                raise ValueError("the first one")
            await asyncio.sleep(3600)
        finally:
            for _ in range(10 * number):
                await asyncio.sleep(0)
            ended.append(number)

    async def whole() -> None:
        waiting = asyncio.ensure_future(side_by_side(one(number) for number in range(4)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if ends_by == "cancellation":
            waiting.cancel()
        with pytest.raises((ValueError, asyncio.CancelledError)):
            await waiting
        assert sorted(ended) == [0, 1, 2, 3]

    asyncio.run(whole())
