"""The Qwen3-8B postmortem's configuration on a virtual clock: 8 tasks × 4 runs of places, 16 prompts × 8 samples.

A trial takes one to three minutes. The same trials run against a pool that answers 429 (with the public client, which
tries 100 times a second apart, and with one that does not try again) and against ours. No time really passes, so that
the figures are the algorithms' own, whatever else this machine does.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from t1cli.terminal.sandbox.pool.app import PoolApp
from t1cli.terminal.sandbox.pool.calls import ServerCalls
from t1cli.terminal.sandbox.pool.leasing import Leasing
from t1cli.terminal.sandbox.pool.operations import Pool
from t1cli.terminal.sandbox.pool.settings import PoolSettings, QueueLimits
from t1cli.terminal.sandbox.sandbox import Placement, SandboxError

MAX_TASKS, RUNS, PROMPTS, SAMPLES = 8, 4, 16, 8
PLACES = MAX_TASKS * RUNS
TRIES, PAUSE_SECONDS = 100, 1.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """Where nothing is ready to run, the clock jumps to the next timer."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now_seconds


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._of = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self._of.now_seconds += timeout
        return super().select(0)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> VirtualLoop:
    loop = VirtualLoop()
    monkeypatch.setattr(time, "monotonic", loop.time)
    return loop


@dataclass
class Outcome:
    """What became of 128 samples."""

    wall_seconds: float = 0.0
    done: Counter[int] = field(default_factory=Counter)
    """Finished samples by group."""
    first_seconds: dict[int, float] = field(default_factory=dict)
    """When a group got its first place."""

    @property
    def lost_share(self) -> float:
        return 1.0 - self.done.total() / (PROMPTS * SAMPLES)

    @property
    def incomplete(self) -> int:
        return PROMPTS - sum(count == SAMPLES for count in self.done.values())

    def line(self, name: str) -> str:
        wall = self.wall_seconds / lower_bound_seconds()
        groups = f"incomplete groups {self.incomplete}/{PROMPTS}, groups without any sample {PROMPTS - len(self.done)}"
        return f"{name}: lost {self.lost_share:.1%}, wall {wall:.2f} x lower bound, {groups}"


def trials() -> list[tuple[int, int, float]]:
    rng = random.Random(8)
    return [(group, sample, rng.uniform(60.0, 180.0)) for group in range(PROMPTS) for sample in range(SAMPLES)]


def lower_bound_seconds() -> float:
    durations = [seconds for _, _, seconds in trials()]
    return max(max(durations), sum(durations) / PLACES)


async def against_429(pools: SimpleNamespace, tries: int) -> Outcome:
    """The public client's way with a pool that refuses."""
    older, outcome, began = pools.OlderPool(max_tasks=MAX_TASKS, max_runs_per_task=RUNS), Outcome(), time.monotonic()

    async def one(group: int, sample: int, seconds: float) -> None:
        for _ in range(tries):
            answer = await older.on_allocate({"task_key": f"t{group}", "request_id": f"{group}:{sample}"})
            if answer.status == 200:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return
        outcome.first_seconds.setdefault(group, time.monotonic() - began)
        await asyncio.sleep(seconds)
        await older.on_close({"lease_id": answer.body["lease_id"]})
        outcome.done[group] += 1
        outcome.wall_seconds = time.monotonic() - began

    await asyncio.gather(*(one(*trial) for trial in trials()))
    return outcome


async def with_our_client(app: Any, wait_seconds: float) -> Outcome:
    """Our client against a server, whole requests included; a request may wait as long as is said."""
    outcome, url = Outcome(), "http://pool"
    calls = ServerCalls(url, transport=httpx.ASGITransport(app=app))
    leasing, began = Leasing([calls], wait_seconds=wait_seconds, lease_seconds=7200.0), time.monotonic()

    async def one(group: int, sample: int, seconds: float) -> None:
        name = f"g{group}-s{sample}"
        try:
            await leasing.reserve(name, "run", Placement(f"t{group}", f"g{group}"))
            await leasing.create(name)
        except SandboxError:
            return
        outcome.first_seconds.setdefault(group, time.monotonic() - began)
        await asyncio.sleep(seconds)
        await leasing.release(name)
        outcome.done[group] += 1
        outcome.wall_seconds = time.monotonic() - began

    await asyncio.gather(*(one(*trial) for trial in trials()))
    await leasing.close()
    return outcome


def run(loop: VirtualLoop, work: Coroutine[Any, Any, Outcome], name: str) -> Outcome:
    outcome = loop.run_until_complete(work)
    print(outcome.line(name))
    return outcome


def our_app(pools: SimpleNamespace, directory: Path, limits: QueueLimits) -> tuple[PoolApp, Any]:
    provider = pools.MemoryProvider(create_seconds=0.5, close_seconds=0.5)
    return PoolApp(Pool(PoolSettings(directory, limits=limits), provider)), provider


@pytest.mark.catalogue("S1")
def test_a_pool_that_refuses_loses_most_of_the_samples(pools: SimpleNamespace, loop: VirtualLoop) -> None:
    giving_up = run(loop, against_429(pools, 1), "429, no retry")
    assert giving_up.lost_share == 0.75 and giving_up.incomplete == PROMPTS
    retrying = run(loop, against_429(pools, TRIES), "429, 100 tries")
    # 100 tries a second apart end before the places of a second wave come free.
    assert retrying.lost_share > 0.4 and retrying.incomplete > PROMPTS / 2


@pytest.mark.catalogue("S2")
@pytest.mark.parametrize(
    ("limits", "most_walls"),
    [
        # A task place that its last run holds keeps three more places empty: the limits cost that, not the line.
        (QueueLimits(MAX_TASKS, RUNS), 1.5),
        # The same 32 leases without limits by task.
        (QueueLimits(PROMPTS, SAMPLES, capacity=PLACES), 1.25),
    ],
)
def test_ours_loses_none_and_starves_nobody(
    pools: SimpleNamespace, loop: VirtualLoop, tmp_path: Path, limits: QueueLimits, most_walls: float
) -> None:
    app, provider = our_app(pools, tmp_path, limits)
    ours = run(loop, with_our_client(app, 2 * lower_bound_seconds()), f"ours, {limits.max_tasks} tasks at once")
    assert ours.lost_share == 0.0 and ours.incomplete == 0
    assert ours.wall_seconds < most_walls * lower_bound_seconds()
    assert max(ours.first_seconds.values()) < 0.8 * lower_bound_seconds(), "every group has begun well before the end"
    assert provider.most_alive <= PLACES and not provider.alive


@pytest.mark.catalogue("S2")
def test_our_client_loses_none_on_the_pool_that_refuses_either(pools: SimpleNamespace, loop: VirtualLoop) -> None:
    older = pools.OlderPool(max_tasks=MAX_TASKS, max_runs_per_task=RUNS)
    ours = run(loop, with_our_client(older, 2 * lower_bound_seconds()), "our client on the pool that answers 429")
    assert ours.lost_share == 0.0 and ours.incomplete == 0 and older.refused == 0
    assert ours.wall_seconds < 1.5 * lower_bound_seconds()
