"""One campaign of the embedded engine, from its start or last checkpoint to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from t1cli.cluster.local import LocalCluster, sweep_cluster
from t1cli.embedded.campaign_work import CampaignWork, Pools, Records
from t1cli.embedded.campaign_world import CampaignSite, campaign_world, load_pools, open_site
from t1cli.embedded.cpu_environment import cpu_environment
from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.pipeline import Schedule, run_pipeline
from t1cli.embedded.processes import Processes
from t1cli.errors import ExitCode, T1Error
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.open_metrics import open_metrics
from t1cli.run.rollout_number import rollout_number
from t1cli.run.save_directories import save_directories
from t1cli.spec.embedded_engine import refuse_unsupported
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.trajectory.versions import lag_rule

Progress = Callable[[str], None]


@dataclass(frozen=True)
class CampaignEnd:
    """How a campaign that was not interrupted ended."""

    outcome: Literal["finished", "stopped"]
    rollouts_done: int
    """Rollouts trained on, those of earlier sessions included."""


def run_campaign(run: RunDirectory, spec: ExperimentSpec, *, resume: bool, progress: Progress) -> CampaignEnd:
    """Run to the last rollout, or to the save after a stop request. `spec` has absolute paths.

    Raises KeyboardInterrupt after SIGINT or SIGTERM, once trials are cancelled, sandboxes closed and what is consistent
    is saved; BadInput for settings this engine lacks; T1Error for what ends a campaign.
    """
    refuse_unsupported(spec)
    events = EventWriter(run.events_jsonl)
    metrics = open_metrics(run, spec, events)
    try:
        with _former_signal_handlers_afterwards():
            return asyncio.run(_Campaign(spec, Records(run, metrics, events, progress), resume=resume).run())
    finally:
        metrics.close()
        events.close()


class _Campaign:
    def __init__(self, spec: ExperimentSpec, records: Records, *, resume: bool) -> None:
        self._spec, self._records, self._resume = spec, records, resume

    async def run(self) -> CampaignEnd:
        """The campaign, with everything it starts ended again."""
        body = asyncio.ensure_future(self._body())
        interruption = _cancel_on_signals(body)
        try:
            return await body
        except asyncio.CancelledError:
            if interruption.is_set():
                raise KeyboardInterrupt from None
            raise

    async def _body(self) -> CampaignEnd:
        async with _processes_and_site(self._spec, self._records) as (cluster, site):
            with self._records.events.phase("load"):
                work, first = await self._load(cluster, site)
            return await self._work_through(work, first)

    async def _load(self, cluster: LocalCluster, site: CampaignSite) -> tuple[CampaignWork, int]:
        """Trainer and server up, tasks read; and the rollout to begin with."""
        spec, run = self._spec, self._records.run
        self._records.progress("loading the trainer and the inference server")
        processes = Processes.spawn(cluster, spec, save_directories(spec, run), first_weights(spec))
        pools = Pools(*await asyncio.to_thread(load_pools, spec))
        progress = await processes.load() if self._resume else None
        first = 0 if progress is None else progress.next_rollout
        if self._resume:
            self._note(
                f"going on with rollout {rollout_number(first)}"
                if progress
                else "no checkpoint yet: starting at rollout 1"
            )
        world = campaign_world(spec, run, site, url=await processes.serve())
        work = CampaignWork(spec, processes, world, pools, self._records)
        if self._resume:
            work.resumed_version = 0 if progress is None else progress.weight_version
        return work, first

    async def _work_through(self, work: CampaignWork, first: int) -> CampaignEnd:
        spec = self._spec
        schedule = Schedule(
            first=first,
            end=spec.rollout.num_rollouts,
            save_every=spec.checkpoint.every_rollouts,
            one_step=spec.rollout.pipeline == "one_step",
            carried_span=lag_rule(spec.rollout).allowed_span,
        )
        try:
            if spec.evaluation is not None and spec.evaluation.before_training and not first:
                await work.evaluate(-1)
            done = await run_pipeline(work, schedule)
        except (asyncio.CancelledError, T1Error):
            await self._save_what_can_be(work)
            raise
        finally:
            await work.close()
        return CampaignEnd("finished" if done >= schedule.end else "stopped", done)

    async def _save_what_can_be(self, work: CampaignWork) -> None:
        """After an interruption or a failure elsewhere the trainer is still consistent, if it is there at all."""
        with suppress(T1Error):
            if await work.save_unsaved():
                self._note("what was trained is saved")

    def _note(self, message: str) -> None:
        self._records.events.write(EventKind.NOTE, message=message)
        self._records.progress(message)


@asynccontextmanager
async def _processes_and_site(
    spec: ExperimentSpec, records: Records
) -> AsyncIterator[tuple[LocalCluster, CampaignSite]]:
    """A private Ray and the sandbox provider, after a sweep of what a killed session left.

    However far the start came, both are ended afterwards, and each also when the other's end fails.
    """
    ending = AsyncExitStack()
    try:
        with records.events.phase("start"):
            left = sweep_cluster(records.run.ray_json)
            records.progress("starting a private Ray")
            starting = asyncio.ensure_future(asyncio.to_thread(_start_cluster, records.run))
            ending.push_async_callback(_close, starting)
            site = open_site(spec, records.run)
            ending.push_async_callback(site.close)
            swept = await site.sweep()
            # A start cannot be broken off: whatever comes of it is closed at the end.
            cluster = await asyncio.shield(starting)
        if left or swept:
            records.events.write(EventKind.SWEPT, count=left + len(swept), names=" ".join(swept))
        yield cluster, site
    finally:
        with records.events.phase("end"):
            await ending.aclose()


def _start_cluster(run: RunDirectory) -> LocalCluster:
    return LocalCluster.start(run.ray_json, run.ray_logs, cpu_environment(threads=1))


async def _close(starting: asyncio.Future[LocalCluster]) -> None:
    await asyncio.wait({starting})
    if not starting.cancelled() and starting.exception() is None:
        await asyncio.to_thread(starting.result().close)


def _cancel_on_signals(body: asyncio.Future[CampaignEnd]) -> threading.Event:
    """The first SIGINT or SIGTERM ends the campaign cleanly, the second at once; the event says that one came."""
    interruption = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        return interruption

    def interrupt() -> None:
        if interruption.is_set():
            # The guard ends Ray and the kernel ends the sandboxes; the next resume sweeps what is left.
            os._exit(ExitCode.INTERRUPTED)
        interruption.set()
        body.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt)
    return interruption


@contextmanager
def _former_signal_handlers_afterwards() -> Iterator[None]:
    # An event loop that closes leaves default handlers behind, not those it found.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
