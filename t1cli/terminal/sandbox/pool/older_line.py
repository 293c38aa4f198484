"""The line that a server without one lacks, kept on the client's side."""

from __future__ import annotations

import asyncio
import time

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
    """Hands out as many places as the server's limits allow, fair between groups."""

    def __init__(self, server: Server) -> None:
        limits = QueueLimits(server.max_tasks, server.max_runs_per_task, server.slots, max_waiting=1 << 30)
        self._line = Line(limits)
        self._usage = Usage()
        self._waiting: dict[Waiter, asyncio.Future[None]] = {}

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
