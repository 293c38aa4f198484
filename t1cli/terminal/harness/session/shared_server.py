"""One session server per event loop, there as long as a trial of that loop uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from t1cli.terminal.harness.chat.renderer import Renderer
from t1cli.terminal.harness.session.server import STOP_SECONDS, SessionServer
from t1cli.terminal.harness.shielded import finish


@dataclass
class _Held:
    users: int = 0
    server: SessionServer | None = None
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedServer:
    """Use as `async with shared.held(renderer) as server` from any number of trials and event loops."""

    def __init__(self) -> None:
        self._held: dict[asyncio.AbstractEventLoop, _Held] = {}

    @asynccontextmanager
    async def held(self, renderer: Renderer) -> AsyncIterator[SessionServer]:
        """The running loop's server. It ends with the last of its users; whoever comes later starts another."""
        loop = asyncio.get_running_loop()
        held = self._held.setdefault(loop, _Held())
        held.users += 1
        try:
            yield await self._started(held, renderer)
        finally:
            held.users -= 1
            if not held.users:
                del self._held[loop]
                if held.server is not None:
                    await finish(held.server.__aexit__(None, None, None), seconds=2 * STOP_SECONDS)

    @staticmethod
    async def _started(held: _Held, renderer: Renderer) -> SessionServer:
        async with held.starting:
            if held.server is None:
                server = SessionServer(renderer)
                await server.__aenter__()
                held.server = server
            return held.server
