"""What can be done with a lease: create, reset, run, place and read files, evaluate. Free of HTTP."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.reward import accuracy_of
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.sandbox.leases import LeaseBook, full_owner
from t1cli.terminal.sandbox.pool.keeper import LeaseKeeper
from t1cli.terminal.sandbox.pool.lease import PoolLease
from t1cli.terminal.sandbox.pool.refusal import (
    CREATE_FAILED,
    EVALUATION_FAILED,
    NO_SANDBOX,
    RESET_FAILED,
    SANDBOX_LOST,
    PoolRefusal,
    bad_request,
)
from t1cli.terminal.sandbox.pool.settings import PoolSettings
from t1cli.terminal.sandbox.pool.single_flight import SingleFlight
from t1cli.terminal.sandbox.sandbox import Sandbox, SandboxError, SandboxProvider
from t1cli.terminal.tasks.load import load_task
from t1cli.terminal.tasks.task import Task

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

_KEPT_OUTPUT_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Score:
    """What an evaluation found."""

    score: float
    """Share of expected tests that passed."""
    solved: bool
    passed: int
    total: int
    ctrf: str


class Pool:
    """One pool server's work over a provider of sandboxes. Belongs to one event loop."""

    def __init__(
        self,
        settings: PoolSettings,
        provider: SandboxProvider,
        *,
        prepare: Callable[[Path], Awaitable[Task]] | None = None,
    ) -> None:
        self.settings = settings
        self.keeper = LeaseKeeper(settings)
        self.counters = self.keeper.counters
        self.provider = provider
        self.owner = full_owner("pool")
        self.uploads = settings.directory / "uploads"
        """Files on their way into a sandbox; what lies here at the start is a dead server's."""
        self._prepare = prepare or _load
        self._prepared: SingleFlight[Task] = SingleFlight(self._prepare_counted)
        self._evaluations = itertools.count()
        self._started = time.time()
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> tuple[int, tuple[str, ...]]:
        """Take over from a dead server: leases closed on record, sandboxes swept. Starts the reaper and the prune."""
        swept = await self.provider.sweep("pool")
        closed = self.keeper.recover()
        shutil.rmtree(self.uploads, ignore_errors=True)
        self.uploads.mkdir(parents=True)
        times = self.settings.times
        self._loops = [
            asyncio.create_task(self._every(times.reap_every_seconds, self._reap)),
            asyncio.create_task(self._every(times.prune_every_seconds, self.prune)),
        ]
        return closed, swept

    async def stop(self) -> None:
        """Drain, then destroy what is left."""
        await self.keeper.drain()
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self.provider.close()

    async def create(self, lease: PoolLease) -> str:
        """An empty sandbox for the lease, unless it has one; returns its name. Raises PoolRefusal."""
        with lease.busy():
            async with lease.lock:
                if lease.sandbox is None:
                    lease.sandbox = await self._made(lease, CREATE_FAILED)
                return lease.sandbox.name

    async def reset(self, lease: PoolLease, task_path: str) -> Task:
        """A fresh sandbox with the task's files, whatever was there; a failure is tried once more on a new one.

        (catalogue S3)
        """
        with lease.busy():
            task = await self.task_of(task_path)
            async with lease.lock:
                for last in (False, True):
                    try:
                        await self._replace(lease, task)
                        return task
                    except (SandboxError, OSError, TimeoutError, PoolRefusal) as error:
                        self.counters.add("reset_failures_total")
                        if last:
                            failure = error
        # Nobody can use a lease without a sandbox: it goes, instead of piling up.
        self.keeper.close(lease, "reset_failed")
        raise PoolRefusal(500, RESET_FAILED, f"{type(failure).__name__}: {failure}") from failure

    async def use(self, lease: PoolLease, work: Callable[[Sandbox], Awaitable[T]]) -> T:
        """Run `work` on the lease's sandbox. Raises PoolRefusal when there is none or it is gone."""
        with lease.busy():
            if lease.sandbox is None:
                raise PoolRefusal(409, NO_SANDBOX, f"lease {lease.lease_id} has no sandbox yet: reset it first")
            try:
                return await work(lease.sandbox)
            except SandboxError as error:
                self.counters.add("sandbox_errors_total")
                raise PoolRefusal(410, SANDBOX_LOST, str(error)) from error

    async def evaluate(self, lease: PoolLease) -> Score:
        """Grade the lease's task. Raises PoolRefusal; a verifier that failed is never a score of 0."""
        task = lease.task
        if task is None:
            raise PoolRefusal(409, NO_SANDBOX, f"lease {lease.lease_id} has no task yet: reset it first")
        place = self.settings.directory / "evaluations" / f"{lease.lease_id}-{next(self._evaluations)}"
        try:
            verdict = await self.use(lease, lambda sandbox: grade(task, sandbox, trial_dir=place))
        except VerifierError as error:
            self.counters.add("evaluations_failed_total")
            raise PoolRefusal(500, EVALUATION_FAILED, str(error)) from error
        return Score(accuracy_of(verdict), verdict.solved, verdict.passed, verdict.total, verdict.ctrf)

    async def task_of(self, task_path: str) -> Task:
        """The task at a path, prepared once however many ask. Raises PoolRefusal."""
        dataset = self.settings.dataset
        if dataset is None:
            raise bad_request("this server has no dataset directory: start it with --dataset")
        place = (dataset / task_path).resolve()
        if not place.is_relative_to(dataset.resolve()):
            raise bad_request(f"{task_path} is not below the server's dataset directory")
        try:
            return await self._prepared.get(str(place))
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP):
                raise
            raise bad_request(f"no task can be at {task_path[:200]}: {error.strerror}") from error

    async def prune(self) -> None:
        """Remove what nobody needs: sandboxes of dead servers of this directory, old output, closed records.

        (catalogue S4)
        """
        swept = await self.provider.sweep("pool")
        self.counters.add("pruned_sandboxes_total", len(swept))
        self.counters.add("prunes_total")
        self.keeper.journal.compact()
        LeaseBook(self.settings.directory / "sandboxes").compact()
        await asyncio.to_thread(_remove_old, self.settings.directory / "evaluations")

    def status(self) -> dict[str, Any]:
        """What /status says, in the words of older servers first."""
        keeper, limits = self.keeper, self.settings.limits
        tasks: dict[str, dict[str, int]] = {}
        for lease in keeper.leases.values():
            tasks.setdefault(lease.request.task, {"active_runs": 0})["active_runs"] += 1
        return {
            "max_tasks": limits.max_tasks,
            "active_tasks": len(tasks),
            "max_runs_per_task": limits.max_runs_per_task,
            "total_active_runs": len(keeper.leases),
            "pending_closes": len(keeper.closing),
            "tasks": tasks,
            "capacity": limits.slots,
            "free": max(0, limits.slots - keeper.usage.total),
            "waiting": len(keeper.line),
            "in_flight": sum(lease.in_flight for lease in keeper.leases.values()),
            "draining": keeper.draining,
            "up_seconds": round(time.time() - self._started, 1),
            "idle_seconds": self.settings.times.idle_seconds,
        }

    def metrics(self) -> str:
        """The same for Prometheus."""
        names = ("capacity", "free", "waiting", "in_flight", "active_tasks", "pending_closes", "up_seconds", "draining")
        status = self.status()
        gauges = {name: float(status[name]) for name in names}
        return self.counters.text(gauges | {"leases": float(status["total_active_runs"])})

    async def _replace(self, lease: PoolLease, task: Task) -> None:
        if lease.sandbox is not None:
            # Never two machines under one lease, and never the old one's state in the new one.
            old, lease.sandbox = lease.sandbox, None
            await old.close()
            self.counters.add("recreated_total")
        sandbox = await self._made(lease, RESET_FAILED)
        try:
            if task.environment is not None:
                await sandbox.put_directory(task.environment, "/work", read_only=False)
        except BaseException:
            await sandbox.close()
            raise
        lease.sandbox, lease.task = sandbox, task

    async def _made(self, lease: PoolLease, code: str) -> Sandbox:
        lease.created += 1
        name = f"{lease.lease_id}-{lease.created}"
        self.keeper.journal.creating(lease.lease_id, name)
        try:
            async with asyncio.timeout(self.settings.times.create_seconds):
                sandbox = await self.provider.create(name, owner=self.owner)
        except (SandboxError, OSError, TimeoutError) as error:
            self.counters.add("create_failures_total")
            raise PoolRefusal(500, code, f"no sandbox: {type(error).__name__}: {error}") from error
        self.counters.add("created_total")
        return sandbox

    async def _prepare_counted(self, place: str) -> Task:
        self.counters.add("prepared_total")
        return await self._prepare(Path(place))

    async def _reap(self) -> None:
        self.keeper.reap()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # a failing prune must not end the reaper
                self.counters.add("background_failures_total")
                trace = error if os.environ.get("T1_VERBOSE") else None
                _LOG.error("background work of the pool failed: %s: %s", type(error).__name__, error, exc_info=trace)


async def _load(place: Path) -> Task:
    return await asyncio.to_thread(load_task, place)


def _remove_old(directory: Path) -> None:
    for entry in directory.iterdir() if directory.is_dir() else ():
        if time.time() - entry.stat().st_mtime > _KEPT_OUTPUT_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)
