"""The sessions of one process over HTTP, in the event loop that also runs the trials."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType

from t1cli.terminal.harness.chat.renderer import Renderer
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.harness.session.app import SessionApp
from t1cli.terminal.harness.session.session import Session
from t1cli.terminal.trajectory.row import Turn

STOP_SECONDS = 10.0
"""Longest wait for connections that are still open when the server stops."""


@dataclass(frozen=True)
class OpenSession:
    """What a harness is given, and the session behind it."""

    session: Session
    base_url: str
    """An OpenAI client's `base_url`; the key is part of it. Anthropic's clients take it without the `/v1`."""
    key: str
    """For a harness that takes an address of its own and an API key: `endpoint` with this as bearer token."""
    endpoint: str
    """`http://HOST:PORT/v1`, without the key."""


class SessionServer:
    """Use as `async with SessionServer(renderer) as server`, then `async with server.open(…) as opened`."""

    def __init__(self, renderer: Renderer, *, host: str = "127.0.0.1", port: int = 0, model: str = "policy") -> None:
        self._renderer = renderer
        self._host, self._port = host, port
        self.app = SessionApp(model=model)
        self.url = ""
        """`http://HOST:PORT`, once the server runs."""

    async def __aenter__(self) -> SessionServer:
        import uvicorn

        from t1cli.terminal.quiet_server import QuietServer

        self._socket = socket.create_server((self._host, self._port), backlog=2048)
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://{host}:{port}"
        config = uvicorn.Config(
            self.app,
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=int(STOP_SECONDS),
        )
        self._server = QuietServer(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        try:
            await self._serving
        finally:
            self._socket.close()

    @contextlib.asynccontextmanager
    async def open(
        self,
        *,
        engine: Engine,
        limits: Limits,
        trial_id: str,
        seed: int,
        on_turn: Callable[[Turn], None],
        renderer: Renderer | None = None,
    ) -> AsyncIterator[OpenSession]:
        """One trial's session, by default with the server's renderer. Leaving it ends the session and its key.

        What still runs in it is aborted in the engine.

        Raises the T1Error (missing or wrong routing) that a turn met: it aborts the rollout.
        """
        session = Session(
            renderer=renderer or self._renderer,
            engine=engine,
            limits=limits,
            trial_id=trial_id,
            seed=seed,
            on_turn=on_turn,
        )
        key = self.app.add(session)
        try:
            yield OpenSession(session, f"{self.url}/sessions/{key}/v1", key, f"{self.url}/v1")
        finally:
            self.app.remove(key)
            await session.close()
