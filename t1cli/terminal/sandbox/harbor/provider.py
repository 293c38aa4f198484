"""Sandboxes of Harbor environments: the provider behind `sandbox.kind: harbor`, for callers of any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from t1cli.spec.sandbox import HarborSandbox
from t1cli.terminal.harness.shielded import finish
from t1cli.terminal.sandbox.harbor.backed import HarborBackedSandbox
from t1cli.terminal.sandbox.harbor.interpreter import TESTED, harbor_python
from t1cli.terminal.sandbox.harbor.keeper import STOP_SECONDS
from t1cli.terminal.sandbox.harbor.link import WorkerLink
from t1cli.terminal.sandbox.harbor.settings import WorkerSettings
from t1cli.terminal.sandbox.harbor.sweep import sweep_leases
from t1cli.terminal.sandbox.leases import Lease, LeaseBook, full_owner
from t1cli.terminal.sandbox.limiter import CreationPace, LoopLimiter
from t1cli.terminal.sandbox.pool.background_loop import BackgroundLoop
from t1cli.terminal.sandbox.sandbox import Placement, Sandbox, SandboxError

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


class HarborProvider:
    """Makes Harbor environments through one worker, started at the first and anew whenever it has ended.

    `directory/harbor` has the record. Raises CouldNotAsk where no Python with Harbor is.
    """

    backend = "harbor"

    def __init__(self, spec: HarborSandbox, directory: Path) -> None:
        self.spec = spec
        self.directory = directory.resolve() / "harbor"
        self.settings = WorkerSettings.of(spec, harbor_python(spec.python), self.directory)
        self.book = LeaseBook(self.directory)
        self._background = BackgroundLoop("t1-harbor")
        # All of these are used in the background loop alone.
        self._places = LoopLimiter(spec.capacity)
        self._pace = CreationPace(spec.creation_per_second)
        self._starting = LoopLimiter(1)
        self._reserved: dict[str, Placement] = {}
        self._live: dict[str, WorkerLink] = {}
        self._held: set[str] = set()
        """Sandboxes that a place is taken by."""
        self._link: WorkerLink | None = None

    async def reserve(self, name: str, *, owner: str, placement: Placement) -> None:
        """Wait for one of the account's places; the task of `placement` says what `create` makes."""
        await self._or_withdrawn(name, self._reserve(name, placement))

    async def give_up(self, name: str) -> None:
        """Give a place back that no sandbox was made in."""
        await self.run(self._withdraw(name))

    async def create(self, name: str, *, owner: str) -> Sandbox:
        """A ready sandbox, of the task that it was reserved for. Raises SandboxError."""
        return await self._or_withdrawn(name, self._create(name, full_owner(owner)))

    async def sweep(self, owner: str | None) -> tuple[str, ...]:
        """End what dead processes of `owner` (null: of anybody) have on record; returns the names of what is gone."""
        return (await sweep_leases(self.directory, owner)).names_told()

    async def close(self) -> None:
        """End every sandbox of this provider, and the worker."""
        with contextlib.suppress(SandboxError):
            await self.run(self._close())
        self._background.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop that the worker's link belongs to."""
        return await self._background.run(work)

    async def end(self, name: str, link: WorkerLink) -> None:
        """One sandbox has been closed by its user. Runs in the background loop."""
        if name not in self._held:
            return
        self._held.remove(name)
        try:
            await link.call("close", name=name)
        finally:
            # What a dead worker held is left for the next one to end.
            if link.alive:
                self._live.pop(name, None)
            self._places.release()

    async def _or_withdrawn(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; when its caller is cancelled, what it got at the last moment is given back."""
        try:
            return await self.run(work)
        except asyncio.CancelledError:
            with contextlib.suppress(SandboxError, TimeoutError):
                await finish(self.run(self._withdraw_made(name)), seconds=STOP_SECONDS)
            raise

    async def _reserve(self, name: str, placement: Placement) -> None:
        await self._places.acquire()
        self._reserved[name] = placement

    async def _withdraw(self, name: str) -> None:
        if self._reserved.pop(name, None) is not None:
            self._places.release()

    async def _withdraw_made(self, name: str) -> None:
        await self._withdraw(name)
        if name in self._held:
            await self.end(name, self._live[name])

    async def _create(self, name: str, owner: str) -> Sandbox:
        placement = self._reserved.pop(name, None)
        if placement is None:
            await self._places.acquire()
        try:
            if name in self._live:
                raise SandboxError(f"a sandbox named {name} is live already")
            await self._pace.wait()
            link = await self._worker()
            return await self._asked(link, name, owner, placement)
        except BaseException:
            self._places.release()
            raise

    async def _asked(self, link: WorkerLink, name: str, owner: str, placement: Placement | None) -> Sandbox:
        task = Path(placement.task_path) if placement is not None and placement.task_path else None
        self.book.ask(Lease(name, owner))
        self.book.started(name, (link.identity,))
        self._live[name] = link
        try:
            made = await link.call("create", name=name, task=None if task is None else str(task.resolve()))
        except BaseException as error:
            # The worker has ended what it had begun and written it down, unless it says otherwise or is gone itself.
            if link.alive:
                if isinstance(error, asyncio.CancelledError):
                    # The cancellation may have come too late for it.
                    await self._closed_anyway(name, link)
                self._live.pop(name, None)
            raise
        self._held.add(name)
        return HarborBackedSandbox(name, self, link, task if made["has_files"] else None)

    async def _closed_anyway(self, name: str, link: WorkerLink) -> None:
        with contextlib.suppress(SandboxError, TimeoutError):
            await finish(link.call("close", name=name), seconds=STOP_SECONDS)

    async def _worker(self) -> WorkerLink:
        async with self._starting:
            if self._link is None or not self._link.alive:
                await self._replace()
            assert self._link is not None
            return self._link

    async def _replace(self) -> None:
        if self._link is not None:
            await self._link.close()
        self._link = await WorkerLink.start(self.settings)
        if self._link.versions.get("harbor") != TESTED:
            _LOG.warning("harbor %s, tested with %s", self._link.versions.get("harbor"), TESTED)
        left = [name for name, link in self._live.items() if not link.alive]
        for name in left:
            self._live.pop(name)
            # Whatever can be ended by its name; the rest is the provider's to end after its lifetime.
            with contextlib.suppress(SandboxError):
                await self._link.call("reclaim", name=name)

    async def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await asyncio.gather(*(self.end(name, link) for name in set(self._held)), return_exceptions=True)
            await link.close()
