"""An engine that counts every token it hands out or loses, independently of what becomes of them."""

from __future__ import annotations

import asyncio

from t1cli.terminal.harness.engine import Engine, Generation, Sampling
from t1cli.terminal.harness.hold import Hold


class MeteredEngine:
    """Passes everything on to another engine and counts sampled tokens; under a hold it is one trial's own."""

    def __init__(self, engine: Engine, hold: Hold | None = None) -> None:
        self._engine = engine
        self.hold = hold
        self.sampled_tokens = 0
        self.held_tokens = 0
        """Of them, those of replies that a hold cut off."""
        self._cut_off: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def reconnect(self, engine: Engine) -> None:
        """Ask this engine from now on; only while on hold."""
        self._engine = engine

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        """One reply, counted. One that a hold cuts off is asked for again, as a whole, when the hold is over."""
        if self.hold is None:
            generation = await self._engine.generate(prompt_ids, rid=rid, sampling=sampling)
        else:
            generation = await self._between_holds(self.hold, prompt_ids, rid, sampling)
        self.sampled_tokens += len(generation.sampled_ids)
        return generation

    def take_lost(self, rid: str) -> int:
        """Tokens of a reply that nobody received, counted."""
        lost_tokens = self._engine.take_lost(self._names.pop(rid, rid))
        self.sampled_tokens += lost_tokens
        return lost_tokens + self._cut_off.pop(rid, 0)

    async def _between_holds(self, hold: Hold, prompt_ids: tuple[int, ...], rid: str, sampling: Sampling) -> Generation:
        while True:
            await hold.over()
            # The engine may still know the request that was cut off.
            times, name = hold.times, f"{rid}-h{hold.times}" if hold.times else rid
            self._names[rid] = name
            asking = asyncio.ensure_future(self._engine.generate(prompt_ids, rid=name, sampling=sampling))
            with hold.stopping(asking):
                cancelled = await _ended(asking)
                if not cancelled and not asking.cancelled():
                    return asking.result()
                if cancelled or hold.times == times:
                    self._count_unseen(rid, asking)
                    raise asyncio.CancelledError
                self._count_cut_off(rid, name)

    def _count_cut_off(self, rid: str, name: str) -> None:
        lost_tokens = self._engine.take_lost(name)
        self.sampled_tokens += lost_tokens
        self.held_tokens += lost_tokens
        self._cut_off[rid] = self._cut_off.get(rid, 0) + lost_tokens

    def _count_unseen(self, rid: str, asking: asyncio.Future[Generation]) -> None:
        """A reply that arrived together with the cancellation of whoever had asked for it."""
        if not asking.cancelled() and asking.exception() is None:
            unseen_tokens = len(asking.result().sampled_ids)
            self.sampled_tokens += unseen_tokens
            self._cut_off[rid] = self._cut_off.get(rid, 0) + unseen_tokens


async def _ended(asking: asyncio.Future[Generation]) -> bool:
    """Wait for a request's end; whether the caller was cancelled meanwhile, which cancels the request."""
    cancelled = False
    while not asking.done():
        try:
            await asyncio.wait({asking})
        except asyncio.CancelledError:
            cancelled = True
            asking.cancel()
    return cancelled
