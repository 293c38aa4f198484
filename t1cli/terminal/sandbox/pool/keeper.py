"""The leases of one pool server: granting, expiry, closing, and what a restart does with the last server's."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass, field

from t1cli.terminal.sandbox.pool.counters import Counters
from t1cli.terminal.sandbox.pool.journal import JournalLease, LeaseJournal
from t1cli.terminal.sandbox.pool.lease import LeaseRequest, PoolLease
from t1cli.terminal.sandbox.pool.refusal import (
    DRAINING,
    QUEUE_FULL,
    QUEUE_TIMEOUT,
    SERVER_TROUBLE,
    PoolRefusal,
    unknown_lease,
)
from t1cli.terminal.sandbox.pool.settings import PoolSettings
from t1cli.terminal.sandbox.pool.waiting import Line, LineFull, Usage, Waiter

_LOG = logging.getLogger(__name__)

_CLOSE_ATTEMPTS = 3


@dataclass(eq=False)
class _Ticket:
    """A request in the line, and how many connections wait for its answer."""

    waiter: Waiter
    request: LeaseRequest
    granted: asyncio.Future[PoolLease]
    listeners: int = 0
    joined_seconds: float = field(default_factory=time.monotonic)


class LeaseKeeper:
    """Grants leases in fair order and takes them back. Belongs to one event loop."""

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.counters = Counters()
        self.journal = LeaseJournal(settings.directory)
        self.line = Line(settings.limits)
        self.usage = Usage()
        self.leases: dict[str, PoolLease] = {}
        self.closing: dict[str, PoolLease] = {}
        self.draining = False
        self._by_request: dict[tuple[str, str], PoolLease] = {}
        self._tickets: dict[Waiter, _Ticket] = {}
        self._waiting: dict[tuple[str, str], _Ticket] = {}
        self._closers = asyncio.Semaphore(settings.max_concurrent_closes)

    async def allocate(self, request: LeaseRequest) -> tuple[PoolLease, bool]:
        """A lease, waited for in the line; True when this request has it already. Raises PoolRefusal."""
        if self.draining:
            raise PoolRefusal(503, DRAINING, "this server is shutting down", retry_after_seconds=5.0)
        # What has expired makes room before anybody is refused.
        self.reap()
        known = self._by_request.get((request.tenant, request.request_id)) if request.request_id else None
        if known is not None:
            known.last_used_seconds = time.monotonic()
            return known, True
        ticket = self._waiting.get((request.tenant, request.request_id)) if request.request_id else None
        ticket = ticket or self._join(request)
        return await self._wait(ticket), False

    def lease(self, lease_id: str, *, tenant: str = "") -> PoolLease:
        """A live lease, marked as used. Raises PoolRefusal 404."""
        lease = self.leases.get(lease_id)
        if lease is None or (self.settings.tokens and lease.request.tenant != tenant):
            self.counters.add("unknown_lease_total")
            raise unknown_lease(lease_id)
        lease.last_used_seconds = time.monotonic()
        lease.delivered = True
        return lease

    def withdraw(self, request_id: str, *, tenant: str = "") -> PoolLease | None:
        """The lease of a request, to be closed; one that still waits leaves the line instead."""
        ticket = self._waiting.get((tenant, request_id))
        if ticket is not None and not ticket.granted.done():
            self._leave(ticket)
            ticket.granted.cancel()
        return self._by_request.get((tenant, request_id))

    def close(self, lease: PoolLease, reason: str) -> asyncio.Future[None]:
        """Take a lease back. Its place is free when its sandbox is gone; the future is done then."""
        if lease.closing is None:
            lease.closing = asyncio.ensure_future(self._close(lease, reason))
            self.leases.pop(lease.lease_id, None)
            self.closing[lease.lease_id] = lease
            key = (lease.request.tenant, lease.request.request_id)
            if self._by_request.get(key) is lease:
                del self._by_request[key]
        return lease.closing

    def reap(self) -> int:
        """Close what nobody uses any more; returns how many (catalogue S3)."""
        times = self.settings.times
        over = [
            lease
            for lease in self.leases.values()
            if lease.expired(idle_seconds=times.idle_seconds, undelivered_seconds=times.undelivered_seconds)
        ]
        for lease in over:
            self.close(lease, "expired")
        self.counters.add("reaped_total", len(over))
        return len(over)

    def recover(self) -> int:
        """Close the books of a server that died with leases; their sandboxes are swept by their own record.

        Raises Refused when the journal is somebody else's file.
        """
        self.journal.refuse_foreign()
        left = self.journal.open_leases()
        for lease in left:
            self.journal.closed(lease.lease_id, "server_restart")
        self.journal.compact()
        self.counters.add("recovered_total", len(left))
        return len(left)

    async def drain(self) -> None:
        """Grant nothing any more, let live leases finish for a while, then close what is left."""
        self.draining = True
        for ticket in list(self._tickets.values()):
            self._leave(ticket)
            if not ticket.granted.done():
                ticket.granted.set_exception(PoolRefusal(503, DRAINING, "this server is shutting down"))
        deadline = time.monotonic() + self.settings.times.drain_seconds
        while self.leases and time.monotonic() < deadline:
            self.reap()
            await asyncio.sleep(0.05)
        for lease in list(self.leases.values()):
            self.close(lease, "drained")
        await asyncio.gather(*(lease.closing for lease in self.closing.values() if lease.closing is not None))

    def _join(self, request: LeaseRequest) -> _Ticket:
        loop = asyncio.get_running_loop()
        ticket = _Ticket(Waiter(request.group, request.task, time.monotonic()), request, loop.create_future())
        try:
            self.line.join(ticket.waiter)
        except LineFull:
            self.counters.add(f'rejected_total{{code="{QUEUE_FULL}"}}')
            message = f"{len(self.line)} requests wait already"
            raise PoolRefusal(429, QUEUE_FULL, message, retry_after_seconds=self._retry_after()) from None
        self._tickets[ticket.waiter] = ticket
        if request.request_id:
            self._waiting[(request.tenant, request.request_id)] = ticket
        self._grant()
        return ticket

    async def _wait(self, ticket: _Ticket) -> PoolLease:
        wanted = ticket.request.wait_seconds
        wait_seconds = self.settings.times.wait_seconds if wanted is None else wanted
        ticket.listeners += 1
        try:
            async with asyncio.timeout(wait_seconds):
                return await asyncio.shield(ticket.granted)
        except TimeoutError:
            self.counters.add("queue_timeouts_total")
            message = f"no lease within {wait_seconds:g} s"
            raise PoolRefusal(503, QUEUE_TIMEOUT, message, retry_after_seconds=self._retry_after()) from None
        except asyncio.CancelledError:
            if ticket.granted.cancelled():
                raise PoolRefusal(409, "WITHDRAWN", "the request was withdrawn") from None
            raise
        finally:
            ticket.listeners -= 1
            if not ticket.listeners:
                self._abandon(ticket)

    def _abandon(self, ticket: _Ticket) -> None:
        """Nobody listens any more: one that still waits leaves; a lease without a request id cannot be asked for."""
        self._leave(ticket)
        if not ticket.granted.done():
            ticket.granted.cancel()

    def _leave(self, ticket: _Ticket) -> None:
        self.line.leave(ticket.waiter)
        self._tickets.pop(ticket.waiter, None)
        key = (ticket.request.tenant, ticket.request.request_id)
        if self._waiting.get(key) is ticket:
            del self._waiting[key]

    def _grant(self) -> None:
        """Hand out every free place."""
        while (waiter := self.line.next(self.usage, now_seconds=time.monotonic())) is not None:
            ticket = self._tickets.pop(waiter)
            self._leave(ticket)
            if ticket.granted.done():
                continue
            request = ticket.request
            lease = PoolLease(f"run-{secrets.token_hex(8)}", request)
            try:
                self.journal.granted(
                    JournalLease(lease.lease_id, request.task, request.group, request.owner, request.request_id)
                )
            except OSError as error:
                # Nothing is granted that is not on record: whoever asked is told, and the line goes on.
                ticket.granted.set_exception(_unrecorded(error, self._retry_after()))
                continue
            self.usage.take(request.task, request.group)
            self.leases[lease.lease_id] = lease
            if request.request_id:
                self._by_request[(request.tenant, request.request_id)] = lease
            self.counters.add("granted_total")
            self.counters.waited(time.monotonic() - ticket.joined_seconds)
            ticket.granted.set_result(lease)

    async def _close(self, lease: PoolLease, reason: str) -> None:
        async with self._closers:
            for attempt in range(_CLOSE_ATTEMPTS):
                if await self._closed(lease):
                    break
                await asyncio.sleep(0.1 * 2**attempt)
            else:
                # Its place stays taken: what may still run must count. The sweep of dead owners has its name.
                self.counters.add("closes_failed_total")
                _LOG.error("the sandbox of lease %s could not be destroyed", lease.lease_id)
                return
        del self.closing[lease.lease_id]
        self.usage.give_back(lease.request.task, lease.request.group)
        try:
            self.journal.closed(lease.lease_id, reason)
        except OSError as error:
            # A restart will close it on record once more; who waits for the place must not wait for the disk.
            _LOG.error("the end of lease %s is not on record: %s", lease.lease_id, error)
        self.counters.add(f'closed_total{{reason="{reason}"}}')
        self._grant()

    async def _closed(self, lease: PoolLease) -> bool:
        # The lock is held while a sandbox is being made: one that is finished late must not stay behind.
        try:
            async with asyncio.timeout(self.settings.times.close_seconds + self.settings.times.create_seconds):
                async with lease.lock:
                    if lease.sandbox is not None:
                        await lease.sandbox.close()
                        lease.sandbox = None
        except Exception as error:  # the boundary of closing: whatever a backend raises, the place stays counted
            _LOG.warning("closing %s: %s: %s", lease.lease_id, type(error).__name__, error)
            return False
        for task in lease.results.values():
            task.cancel()
        # Whatever they end with; only this closer's own cancellation goes on from here.
        await asyncio.gather(*lease.results.values(), return_exceptions=True)
        return True

    def _retry_after(self) -> float:
        """Seconds until a place may be free: the longer the line, the later."""
        return min(60.0, 1.0 + len(self.line) / max(1, self.settings.limits.slots))


def _unrecorded(error: OSError, retry_after_seconds: float) -> PoolRefusal:
    message = f"the pool server cannot record leases: {error}"
    return PoolRefusal(503, SERVER_TROUBLE, message, retry_after_seconds=retry_after_seconds)
