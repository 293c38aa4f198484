"""Trials on the rollout nodes themselves (catalogue S10 at launch).

The coordinator decides, its node does not carry the traffic.

A worker holds its share of the sandbox places, talks to the engines from its own node, and hands back finished rows.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from t1cli.cluster.node_actors import NodeActors
from t1cli.plugin.ask_again import AskAgain
from t1cli.plugin.campaign import Campaign, open_campaign
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.harness.hold import Hold
from t1cli.terminal.rollout.kept import RunningTrial
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.rollout.world import TrialWorld

TARGET = "t1cli.plugin.trial_worker:TrialWorker"


class Played(NamedTuple):
    """What a worker hands back."""

    result: TrialResult
    sampled_tokens: int
    held_tokens: int = 0


class TrialWorker:
    """One node's trials. Made inside a Ray actor, from plain values."""

    def __init__(self, settings_json: str, engine_url: str, places: int) -> None:
        self._campaign: Campaign = open_campaign(settings_json, engine_url)
        # Every node has a share of the provider's capacity, so that all nodes together stay within it.
        self._slots = Slots(places)
        self._running: dict[str, RunningTrial] = {}

    async def play(self, plan: TrialPlan, run_tag: str, evaluates: bool, holdable: bool = False) -> Played:
        """One trial, and the tokens that its engine sampled for it."""
        world = self._campaign.evaluation_world if evaluates else self._campaign.world
        async with world.connect() as engine:
            again = AskAgain(engine, unless=lambda: False)
            metered = MeteredEngine(again, Hold() if holdable else None)
            trial = Trial(replace(world, slots=self._slots, run_tag=run_tag), plan, metered)
            task = asyncio.create_task(trial.run())
            self._running[plan.trial_id] = RunningTrial(task, trial, plan, metered)
            try:
                return Played(await task, metered.sampled_tokens, metered.held_tokens + again.cut_off_tokens)
            finally:
                del self._running[plan.trial_id]

    async def hold(self, trial_id: str) -> int:
        """Put one trial on hold; what it has sampled so far, 0 when it does not run here."""
        if trial_id not in self._running:
            return 0
        await self._running[trial_id].stop()
        return self._running[trial_id].sampled_tokens if trial_id in self._running else 0

    async def go_on(self, trial_id: str) -> None:
        """End the hold of one trial."""
        if trial_id in self._running:
            await self._running[trial_id].go_on()

    async def cancel(self, trial_id: str, cause: str) -> None:
        """End one trial with outcome cancelled; `play` returns its result."""
        if trial_id in self._running:
            self._running[trial_id].cancel(cause)


class RemoteTrial:
    """A Trial whose body runs on another node; the same promises: a result for every way it can end."""

    def __init__(
        self, workers: NodeActors, world: TrialWorld, plan: TrialPlan, engine: Engine, *, evaluates: bool = False
    ) -> None:
        self.plan, self._evaluates = plan, evaluates
        self._workers, self._world, self._engine = workers, world, engine
        # A repeated trial goes to another node: the first one may be the reason.
        self.node = workers.addresses[(plan.group_id + plan.attempt) % len(workers.addresses)]
        self.nodes = len(workers.addresses)
        self._cancelled_for = ""

    def cancel(self, task: asyncio.Task[TrialResult], cause: str) -> None:
        """End the trial, running as `task`, with outcome cancelled."""
        self._cancelled_for = self._cancelled_for or cause
        task.cancel()

    def cancelled_result(self) -> TrialResult:
        """The result of a trial that was cancelled before its node had begun."""
        if not self._cancelled_for:
            raise asyncio.CancelledError
        return self._lost(Boundary.CANCELLED, self._cancelled_for, "")

    async def hold(self) -> int:
        """Put it on hold on its node; what it has sampled so far. A node that is gone ends the trial itself."""
        try:
            return int(await self._workers.call(self.node, "hold", self.plan.trial_id))
        except ConnectionError:
            return 0

    async def go_on(self) -> None:
        """End the hold."""
        with suppress(ConnectionError):
            await self._workers.call(self.node, "go_on", self.plan.trial_id)

    async def run(self) -> TrialResult:
        """Play it on its node; a lost node is an infrastructure outcome, so the rollout refills it."""
        holdable = isinstance(self._engine, MeteredEngine) and self._engine.hold is not None
        call = self._workers.call(self.node, "play", self.plan, self._world.run_tag, self._evaluates, holdable)
        playing = asyncio.ensure_future(call)
        try:
            await asyncio.wait({playing})
        except asyncio.CancelledError:
            # A node that is gone has nothing left to cancel; the trial ends as lost then.
            with suppress(ConnectionError):
                cause = self._cancelled_for or "interrupted"
                await self._workers.call(self.node, "cancel", self.plan.trial_id, cause)
            if not self._cancelled_for:
                raise
            await asyncio.wait({playing}, timeout=self._world.close_seconds * 3)
            if not playing.done():
                return self.cancelled_result()
        return self._result(playing)

    def _result(self, playing: asyncio.Future[Any]) -> TrialResult:
        try:
            played = Played(*playing.result())
        except ConnectionError as gone:
            return self._lost(Boundary.HARNESS, "worker_lost", str(gone))
        if isinstance(self._engine, MeteredEngine):
            self._engine.sampled_tokens += played.sampled_tokens
            self._engine.held_tokens += played.held_tokens
        assert isinstance(played.result, TrialResult)
        return played.result

    def _lost(self, boundary: Boundary, cause: str, detail: str) -> TrialResult:
        return TrialResult(self.plan, Outcome(False, StopReason.FAILED, boundary, cause, detail))


def rollout_addresses(worker_urls: list[str]) -> tuple[str, ...]:
    """The hosts of the router's engines, each once."""
    hosts = [urlsplit(url if "://" in url else f"//{url}").hostname for url in worker_urls]
    return tuple(dict.fromkeys(host for host in hosts if host))
