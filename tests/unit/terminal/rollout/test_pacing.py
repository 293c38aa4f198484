"""Places and pace are shared by event loops in several threads, in the order asked for."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from t1cli.terminal.rollout.pacing import Pace, Slots


@pytest.mark.catalogue("S7")
def test_slots_are_never_exceeded_across_event_loops_and_everyone_gets_one() -> None:
    slots = Slots(3)
    lock, inside, most, served = threading.Lock(), 0, 0, 0

    async def use() -> None:
        nonlocal inside, most, served
        async with slots.held():
            with lock:
                inside += 1
                most = max(most, inside)
            await asyncio.sleep(0.002)
            with lock:
                inside -= 1
                served += 1

    async def crowd() -> None:
        await asyncio.gather(*(use() for _ in range(40)))

    threads = [threading.Thread(target=asyncio.run, args=(crowd(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert served == 120 and most == 3 and slots.in_use == 0


def test_a_waiter_cancelled_while_its_place_is_on_the_way_passes_it_on() -> None:
    async def run() -> None:
        slots = Slots(1)
        await slots.acquire()
        first = asyncio.create_task(slots.acquire())
        second = asyncio.create_task(slots.acquire())
        await asyncio.sleep(0)
        slots.release()
        first.cancel()
        await asyncio.wait_for(second, 120)
        assert first.cancelled() and slots.in_use == 1

    asyncio.run(run())


def test_waiters_of_a_loop_that_died_do_not_block_others() -> None:
    slots = Slots(1)
    dead = asyncio.new_event_loop()
    dead.run_until_complete(slots.acquire())
    waiter = dead.create_task(slots.acquire())
    dead.run_until_complete(asyncio.sleep(0))
    dead.close()
    waiter._log_destroy_pending = False
    slots.release()
    asyncio.run(asyncio.wait_for(slots.acquire(), 120))


def test_slots_are_served_in_the_order_asked_for() -> None:
    async def run() -> list[int]:
        slots, order = Slots(1), []

        async def use(index: int) -> None:
            async with slots.held():
                order.append(index)
                await asyncio.sleep(0)

        await asyncio.gather(*(use(index) for index in range(10)))
        return order

    assert asyncio.run(run()) == list(range(10))


@pytest.mark.catalogue("S6")
def test_pace_spaces_passes_over_two_event_loops() -> None:
    pace, times, lock = Pace(100.0), [], threading.Lock()

    async def take() -> None:
        await pace.take()
        with lock:
            times.append(time.monotonic())

    async def crowd() -> None:
        await asyncio.gather(*(take() for _ in range(10)))

    started = time.monotonic()
    threads = [threading.Thread(target=asyncio.run, args=(crowd(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    times.sort()
    assert len(times) == 20
    # No pass before its turn: 1 / 100 s each, the first at once.
    assert all(at - started >= index * 0.01 - 0.002 for index, at in enumerate(times))


def test_no_pace_never_waits_and_no_capacity_is_refused() -> None:
    assert asyncio.run(Pace(None).take()) == 0.0
    with pytest.raises(ValueError, match="capacity 0"):
        Slots(0)
