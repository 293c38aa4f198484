"""Shielded work ends under any number of cancellations, within its deadline, and the caller learns of both."""

from __future__ import annotations

import asyncio

import pytest

from t1cli.terminal.harness import shielded
from t1cli.terminal.harness.shielded import finish


def test_work_is_finished_under_many_cancellations_and_the_caller_is_cancelled_after_it() -> None:
    async def run() -> None:
        done = []

        async def work() -> None:
            await asyncio.sleep(0.05)
            done.append(True)

        task = asyncio.create_task(finish(work(), seconds=120))
        for _ in range(4):
            await asyncio.sleep(0.005)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done

    asyncio.run(run())


@pytest.mark.parametrize("stubborn", [False, True])
def test_the_deadline_holds_even_for_work_that_ignores_cancellation(
    stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shielded, "LAST_WORD_SECONDS", 0.05)

    async def run() -> bool:
        release = asyncio.Event()

        async def work() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    if not stubborn:
                        raise

        with pytest.raises(TimeoutError):
            await finish(work(), seconds=0.05)
        unfinished = not release.is_set()
        release.set()
        return unfinished

    assert asyncio.run(run()), "the caller was let go before the work would have ended"


def test_results_and_errors_come_through() -> None:
    async def value() -> int:
        return 3

    async def error() -> int:
        raise KeyError("x")

    async def run() -> None:
        assert await finish(value(), seconds=120) == 3
        with pytest.raises(KeyError):
            await finish(error(), seconds=120)

    asyncio.run(run())
