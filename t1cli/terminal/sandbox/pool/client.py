"""Sandboxes leased from pool servers: the provider behind `sandbox.kind: pool`, for callers of any event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from t1cli.spec.sandbox import PoolSandbox
from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.sandbox.leases import Lease, LeaseBook, full_owner, owner_matches
from t1cli.terminal.sandbox.pool.background_loop import BackgroundLoop
from t1cli.terminal.sandbox.pool.calls import ServerAway, ServerCalls, ServerSaid
from t1cli.terminal.sandbox.pool.leasing import Leased, Leasing
from t1cli.terminal.sandbox.pool.older import OlderSandbox
from t1cli.terminal.sandbox.pool.remote import RemoteSandbox
from t1cli.terminal.sandbox.sandbox import ExecResult, Placement, Sandbox, SandboxError
from t1cli.terminal.sandbox.warm_pytest import PytestJob

if TYPE_CHECKING:
    import httpx


T = TypeVar("T")

TOKEN_VARIABLE = "T1_POOL_TOKEN"
"""Environment variable with the token of the servers; never in a spec, which is logged and stored."""


class PoolProvider:
    """Leases sandboxes from the spec's servers; `directory` has the record of what this machine has asked for."""

    def __init__(
        self, spec: PoolSandbox, directory: Path, *, transports: dict[str, httpx.AsyncBaseTransport] | None = None
    ) -> None:
        self.spec = spec
        self.book = LeaseBook(directory / "pool")
        self._transports = transports or {}
        self._background = BackgroundLoop("t1-pool-client")
        self._leasing: Leasing | None = None

    async def reserve(self, name: str, *, owner: str, placement: Placement) -> None:
        """Wait for a lease. Raises SandboxError after `wait_seconds`; a server that is full never fails it."""
        self.book.ask(Lease(name, full_owner(owner)))
        try:
            await self._run(self._parts().reserve(name, full_owner(owner), placement))
        except SandboxError:
            self.book.closed(name)
            raise
        except asyncio.CancelledError:
            # The wait has withdrawn its request by now, or a later sweep or the lease's idle limit will.
            self.book.closed(name)
            raise

    async def give_up(self, name: str) -> None:
        """Give a lease back that no sandbox was made of."""
        if await self._run(self._parts().give_up(name)):
            self.book.closed(name)

    async def create(self, name: str, *, owner: str) -> Sandbox:
        """A ready sandbox with an empty `/work`; waits for a lease unless one is reserved. Raises SandboxError."""
        if not self._parts().is_reserved(name):
            await self.reserve(name, owner=owner, placement=Placement(name, owner))
        leased = await self._run(self._parts().create(name))
        return _sandbox(name, leased, self)

    async def sweep(self, owner: str | None) -> tuple[str, ...]:
        """Close what dead processes of `owner` (null: of anybody) have on record; returns the names that were found."""
        left = [lease for lease in self.book.leases() if not lease.closed and not lease.owner_alive]
        wanted = [lease for lease in left if owner is None or owner_matches(lease.owner, owner)]
        found: list[str] = []
        for lease in wanted:
            state = await self._run(self._parts().close_request(lease.name))
            if state is not None:
                self.book.closed(lease.name, swept=True)
                found += [lease.name] if state else []
        return tuple(found)

    async def close(self) -> None:
        """Close every lease of this provider and its connections."""
        if self._leasing is not None:
            for name in await self._run(self._leasing.close()):
                self.book.closed(name)
            self._leasing = None
        self._background.close()

    async def closed(self, name: str) -> None:
        """One sandbox has been closed by its user."""
        if await self._run(self._parts().release(name)):
            self.book.closed(name)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._background.run(work)

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one operation of a sandbox in the background loop, its failures as SandboxError."""
        return await self._run(_as_sandbox_error(work))

    def _parts(self) -> Leasing:
        if self._leasing is None:
            token = os.environ.get(TOKEN_VARIABLE, "")
            calls = [ServerCalls(url, token=token, transport=self._transports.get(url)) for url in self.spec.urls]
            self._leasing = Leasing(calls, wait_seconds=self.spec.wait_seconds, lease_seconds=self.spec.lease_seconds)
        return self._leasing


async def _as_sandbox_error(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except (ServerAway, ServerSaid) as error:
        raise SandboxError(f"{type(error).__name__}: {error}") from error


class PooledSandbox:
    """A leased sandbox, usable from any event loop; every call runs in the provider's background loop."""

    def __init__(self, name: str, remote: RemoteSandbox | OlderSandbox, provider: PoolProvider) -> None:
        self.name = name
        self._remote = remote
        self._provider = provider
        self._closed = False

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command. Raises SandboxError when the sandbox is gone."""
        return await self._ask(self._remote.exec(command, timeout_seconds=timeout_seconds, cwd=cwd, env=env))

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Place a host directory's files at an absolute path inside; a read-only target is emptied first."""
        await self._ask(self._remote.put_directory(source, target, read_only=read_only))

    async def reset_directory(self, path: str) -> None:
        """Make an absolute path inside an empty directory that commands can write to."""
        await self._ask(self._remote.reset_directory(path))

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file inside; None when absent. Raises SandboxError above `max_bytes`."""
        return await self._ask(self._remote.read_file(path, max_bytes=max_bytes))

    async def end_processes(self) -> int:
        """End every process the agent left running; returns how many."""
        return await self._ask(self._remote.end_processes())

    async def close(self) -> None:
        """Give the lease back; the server's place is free when this returns. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self._provider.closed(self.name)

    async def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise SandboxError(f"sandbox {self.name} is gone: it was closed")
        return await self._provider.ask(work)


class _OfOurServer(PooledSandbox):
    """A sandbox whose server has pytest imported already."""

    def __init__(self, name: str, remote: RemoteSandbox, provider: PoolProvider) -> None:
        super().__init__(name, remote, provider)
        self._warm = remote

    async def run_pytest(self, job: PytestJob, *, timeout_seconds: float) -> ExecResult | None:
        """Run pytest from the server's warm process; None when it has none."""
        return await self._ask(self._warm.run_pytest(job, timeout_seconds=timeout_seconds))


class _OfOlderServer(PooledSandbox):
    """A sandbox whose server grades by itself."""

    def __init__(self, name: str, remote: OlderSandbox, provider: PoolProvider) -> None:
        super().__init__(name, remote, provider)
        self._grader = remote

    async def evaluate(self, *, expected_tests: int | None, timeout_seconds: float) -> Verdict:
        """The server's own verdict. Raises VerifierError and SandboxError."""
        work = self._grader.evaluate(expected_tests=expected_tests, timeout_seconds=timeout_seconds)
        return await self._ask(work)


def _sandbox(name: str, leased: Leased, provider: PoolProvider) -> PooledSandbox:
    if leased.server.is_ours:
        return _OfOurServer(name, RemoteSandbox(leased), provider)
    return _OfOlderServer(name, OlderSandbox(leased), provider)
