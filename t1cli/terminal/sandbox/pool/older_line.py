"""The line that a server without one lacks, kept on the client's side."""

from __future__ import annotations

import asyncio
import time

from t1cli.terminal.sandbox.pool.calls import ServerAway, ServerSaid
from t1cli.terminal.sandbox.pool.placement import Server
from t1cli.terminal.sandbox.pool.settings import QueueLimits
from t1cli.terminal.sandbox.pool.waiting import Line, Usage, Waiter
from t1cli.terminal.sandbox.sandbox import Placement, SandboxError


class Place:
    """The right to hold one lease."""

    def __init__(self, line: OlderLine, placement: Placement) -> None:
        self._line: OlderLine | None = line
        self._placement = placement

    def give_back(self) -> None:
        """Let the next one ask. Safe to call twice."""
        if self._line is not None:
            line, self._line = self._line, None
            line.free(self._placement)


class OlderLine:
    """Hands out as many places as the server's limits allow, fair between groups (catalogue S2)."""

    def __init__(self, server: Server) -> None:
        self._server = server
        limits = QueueLimits(server.max_tasks, server.max_runs_per_task, server.slots, max_waiting=1 << 30)
        self._line = Line(limits)
        self._usage = Usage()
        self._waiting: dict[Waiter, asyncio.Future[None]] = {}
        self._closing = 0
        """Places whose leases are closed and whose machines may still live."""
        self._looking = asyncio.Lock()

    async def place(self, placement: Placement, deadline: float) -> Place:
        """Wait for a place. Raises SandboxError at the deadline."""
        waiter = Waiter(placement.group, placement.task, time.monotonic())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.join(waiter)
        self._waiting[waiter] = turn
        self._grant()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await turn
        except BaseException as error:
            if not self._line.leave(waiter):
                self.free(placement)
            self._waiting.pop(waiter, None)
            if isinstance(error, TimeoutError):
                raise SandboxError("no place on an older pool server in time") from None
            raise
        return Place(self, placement)

    async def machine_gone(self, wait_seconds: float) -> None:
        """Wait until the machine of one closed lease is gone: such a server hands its place out before that."""
        deadline = time.monotonic() + wait_seconds
        pause_seconds = 0.02
        self._closing += 1
        try:
            while not await self._one_is_gone() and time.monotonic() < deadline:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2.0, pause_seconds * 1.5)
        finally:
            self._closing -= 1

    async def _one_is_gone(self) -> bool:
        """Whether fewer machines are closing than closed places wait here, so that one of them has waited enough.

        Only one look at a time: a status counts what was closed before it was asked for, and nothing later.
        """
        async with self._looking:
            closing = self._closing
            try:
                self._server.saw(await self._server.calls.get("/status"))
            except (ServerAway, ServerSaid, ValueError, KeyError, TypeError):
                return True
            return self._server.pending_closes < closing

    def free(self, placement: Placement) -> None:
        """A place is not used any more."""
        self._usage.give_back(placement.task, placement.group)
        self._grant()

    def _grant(self) -> None:
        while (waiter := self._line.next(self._usage, now_seconds=time.monotonic())) is not None:
            self._usage.take(waiter.task, waiter.group)
            turn = self._waiting.pop(waiter)
            if not turn.done():
                turn.set_result(None)
