"""Trials on other nodes keep a rollout's promises: a lost node is refilled, tokens are counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.plugin.campaign import provider_of
from t1cli.plugin.trial_worker import RemoteTrial, rollout_addresses
from t1cli.run.directory import RunDirectory
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.outcome import Outcome, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.sandbox.leases import Lease


class Workers:
    """Two nodes without Ray."""

    addresses = ("10.0.0.1", "10.0.0.2")

    def __init__(self, *, lost: bool = False) -> None:
        self.lost, self.calls = lost, []
        self.cancelled: dict[str, asyncio.Event] = {}

    async def call(self, address, method, *arguments):
        self.calls.append((address, method))
        if self.lost:
            raise ConnectionError("gone")
        if method == "cancel":
            self.cancelled[arguments[0]].set()
            return None
        plan = arguments[0]
        if plan.seed:
            event = self.cancelled.setdefault(plan.trial_id, asyncio.Event())
            await event.wait()
            return TrialResult(plan, Outcome(False, StopReason.FAILED, None, "over_sampled"), sampled_tokens=3), 3
        return TrialResult(plan, Outcome(True, StopReason.DONE), sampled_tokens=5), 7


def trial(workers: Workers, group: int, seed: int = 0) -> tuple[RemoteTrial, MeteredEngine]:
    plan = TrialPlan(SimpleNamespace(name="t"), f"trial-{group}", group, 0, 0, seed)
    engine = MeteredEngine(SimpleNamespace())
    return RemoteTrial(workers, SimpleNamespace(run_tag="r", close_seconds=1.0), plan, engine), engine


@pytest.mark.catalogue("S10")
def test_groups_are_spread_and_tokens_are_counted_here() -> None:
    workers = Workers()
    for group in range(3):
        remote, engine = trial(workers, group)
        assert asyncio.run(remote.run()).outcome.scored and engine.sampled_tokens == 7
    assert [address for address, _ in workers.calls] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]


def test_a_repeated_trial_goes_to_another_node() -> None:
    workers = Workers()
    for attempt in range(2):
        plan = TrialPlan(SimpleNamespace(name="t"), f"trial-{attempt}", 4, 0, attempt, 0)
        world = SimpleNamespace(run_tag="r", close_seconds=1.0)
        asyncio.run(RemoteTrial(workers, world, plan, MeteredEngine(SimpleNamespace())).run())
    assert [address for address, _ in workers.calls] == ["10.0.0.1", "10.0.0.2"]


def test_a_lost_node_is_an_infrastructure_outcome() -> None:
    outcome = asyncio.run(trial(Workers(lost=True), 0)[0].run()).outcome
    assert not outcome.scored and outcome.cause == "worker_lost"


def test_a_cancelled_trial_ends_on_its_node_and_hands_its_tokens_over() -> None:
    async def play() -> tuple[TrialResult, int, list[tuple[str, str]]]:
        workers = Workers()
        remote, engine = trial(workers, 1, seed=9)
        task = asyncio.create_task(remote.run())
        while not workers.cancelled:
            await asyncio.sleep(0)
        remote.cancel(task, "over_sampled")
        return await task, engine.sampled_tokens, workers.calls

    result, tokens, calls = asyncio.run(play())
    assert result.outcome.cause == "over_sampled" and tokens == 3 and calls[-1] == ("10.0.0.2", "cancel")


@pytest.mark.parametrize("cause", ["over_sampled", ""])
def test_cancelling_a_trial_of_a_node_that_dies_meanwhile_is_no_failure_of_the_rollout(cause: str) -> None:
    class Dying(Workers):
        async def call(self, address, method, *arguments):
            if method == "cancel":
                self.cancelled[arguments[0]].set()
                raise ConnectionError("gone")
            self.cancelled[arguments[0].trial_id] = asyncio.Event()
            await self.cancelled[arguments[0].trial_id].wait()
            raise ConnectionError("gone")

    async def play() -> TrialResult:
        workers = Dying()
        remote, _ = trial(workers, 1, seed=9)
        task = asyncio.create_task(remote.run())
        while not workers.cancelled:
            await asyncio.sleep(0)
        remote.cancel(task, cause) if cause else task.cancel()
        return await task

    if cause:
        assert asyncio.run(play()).outcome.cause == "worker_lost"
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(play())


def test_a_node_never_sweeps_what_another_node_has_on_record(tmp_path: Path, monkeypatch) -> None:
    """The run directory is shared, /proc is not: from here every process of another machine looks dead."""
    settings = SimpleNamespace(
        spec=SimpleNamespace(sandbox=LocalSandbox(backend="process")), run=RunDirectory(tmp_path)
    )
    providers = []
    for node in ("one", "two"):
        monkeypatch.setattr("platform.node", lambda node=node: node)
        providers.append(provider_of(settings))
    one, two = providers
    one.leases.ask(Lease("trial", "run/999999999/1@elsewhere"))
    assert asyncio.run(two.sweep("run")) == () and not one.leases.leases()[0].closed
    assert asyncio.run(one.sweep("run")) == ("trial",)


def test_a_node_that_is_gone_holds_nothing_and_its_trial_is_lost() -> None:
    async def whole() -> None:
        remote, _ = trial(Workers(lost=True), 0)
        assert await remote.hold() == 0
        await remote.go_on()
        assert (await remote.run()).outcome.cause == "worker_lost"

    asyncio.run(whole())


@pytest.mark.catalogue("S10")
def test_nodes_come_from_the_routers_engines() -> None:
    urls = ["http://10.0.0.1:30000", "10.0.0.1:30001", "http://[fd00::2]:30000", ""]
    assert rollout_addresses(urls) == ("10.0.0.1", "fd00::2")
