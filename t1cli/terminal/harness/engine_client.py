"""Client of SGLang's native /generate: ids in, ids out, every wait bounded, no client shared across event loops.

(catalogue C6)
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from t1cli.terminal.backoff import RETRIED_STATUS, backoff_seconds
from t1cli.terminal.harness.engine import EngineError, Generation, Sampling
from t1cli.terminal.harness.shielded import finish
from t1cli.terminal.harness.wire import generation_of, request_body, sampled_tokens
from t1cli.terminal.trajectory.routing import RoutingShape

if TYPE_CHECKING:
    import httpx

# httpx walks all connections for every idle one at each request: with 60 kept, a request costs 7 ms of CPU, with 8 it
# costs 1.4, new connections included (measured, httpx 0.28).
_IDLE_CONNECTIONS = 8


@dataclass(frozen=True)
class ClientTimes:
    """Every wait of the client, in seconds."""

    generate_seconds: float = 600.0
    """One reply, retries included."""
    control_seconds: float = 10.0
    """One control call: health, abort."""
    abandon_seconds: float = 5.0
    """Waiting for the partial reply of an aborted request, so that its tokens are counted."""
    first_backoff_seconds: float = 0.2
    max_backoff_seconds: float = 5.0
    max_retries: int = 4

    @property
    def abandoning_seconds(self) -> float:
        """Longest time that abandoning one request takes."""
        return self.control_seconds + self.abandon_seconds + 1.0


class EngineClient:
    """An Engine over HTTP. Use as `async with EngineClient(url, …) as engine` inside the loop that uses it."""

    def __init__(
        self,
        url: str,
        *,
        routing: RoutingShape | None = None,
        times: ClientTimes | None = None,
        max_connections: int = 1024,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.retries = 0
        self._routing = routing
        self._times = times or ClientTimes()
        self._max_connections = max_connections
        self._transport = transport
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lost: dict[str, int] = {}

    async def __aenter__(self) -> EngineClient:
        import httpx

        self._loop = asyncio.get_running_loop()
        self._http = httpx.AsyncClient(
            base_url=self.url,
            # `generate` bounds the whole reply; this one only has to outlive it, so that a cut is seen in one place.
            timeout=httpx.Timeout(
                self._times.generate_seconds + self._times.abandoning_seconds, connect=self._times.control_seconds
            ),
            limits=httpx.Limits(max_connections=self._max_connections, max_keepalive_connections=_IDLE_CONNECTIONS),
            transport=self._transport,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.aclose()
        self._http = None

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        """One reply to `prompt_ids`. Cancelling it aborts the request in the engine. Raises EngineError."""
        body = request_body(prompt_ids, rid=rid, sampling=sampling, routing=self._routing is not None)
        started, abandoned = time.monotonic(), asyncio.Event()
        posting = asyncio.ensure_future(self._post_with_retries(body, abandoned))
        try:
            await asyncio.wait({posting}, timeout=self._times.generate_seconds)
        except asyncio.CancelledError:
            abandoned.set()
            await finish(self._abandon(rid, posting), seconds=self._times.abandoning_seconds)
            raise
        if not posting.done():
            abandoned.set()
            await finish(self._abandon(rid, posting), seconds=self._times.abandoning_seconds)
            raise EngineError("engine_timeout", f"no reply within {self._times.generate_seconds:g} s")
        return generation_of(
            posting.result(), prompt_ids=prompt_ids, routing=self._routing, seconds=time.monotonic() - started
        )

    def take_lost(self, rid: str) -> int:
        """Tokens that the engine sampled for a request whose reply nobody received; counted once."""
        return self._lost.pop(rid, 0)

    async def abort(self, rid: str) -> bool:
        """Ask the engine to stop one request; False when it could not be asked."""
        return await self._control("POST", "/abort_request", {"rid": rid})

    async def healthy(self) -> bool:
        """Whether the engine answers its health check within the control time limit."""
        return await self._control("GET", "/health", None)

    async def _abandon(self, rid: str, posting: asyncio.Future[dict[str, Any]]) -> None:
        if not posting.done():
            await self.abort(rid)
            await asyncio.wait({posting}, timeout=self._times.abandon_seconds)
        if not posting.done():
            posting.cancel()
            await asyncio.wait({posting})
        if not posting.cancelled() and posting.exception() is None:
            self._lost[rid] = sampled_tokens(posting.result())

    async def _control(self, method: str, path: str, body: dict[str, Any] | None) -> bool:
        import httpx

        try:
            async with asyncio.timeout(self._times.control_seconds):
                answer = await self._client().request(method, path, json=body)
        except (httpx.HTTPError, TimeoutError):
            return False
        return answer.status_code == 200

    async def _post_with_retries(self, body: dict[str, Any], abandoned: asyncio.Event) -> dict[str, Any]:
        problem = EngineError("engine_unreachable")
        for attempt in range(self._times.max_retries + 1):
            if attempt and not await self._back_off(attempt, abandoned):
                break
            try:
                answer = await self._post_once(body)
            except EngineError as error:
                problem = error
                continue
            if answer.status_code == 200:
                return _json_object(answer)
            problem = EngineError(f"engine_http_{answer.status_code}", answer.text[:200])
            # Asking again cannot run a command twice: those of a reply run only after the reply has arrived.
            if answer.status_code not in RETRIED_STATUS:
                break
        raise problem

    async def _post_once(self, body: dict[str, Any]) -> httpx.Response:
        import httpx

        try:
            return await self._client().post("/generate", json=body)
        except httpx.ConnectError as error:
            raise EngineError("engine_unreachable", f"{type(error).__name__}: {error}") from error
        except httpx.HTTPError as error:
            # The engine may still be sampling this request; a second one under the same rid must not meet it.
            await self.abort(str(body["rid"]))
            raise EngineError("engine_connection_lost", f"{type(error).__name__}: {error}") from error

    async def _back_off(self, attempt: int, abandoned: asyncio.Event) -> bool:
        """Wait before a retry; False when the request was abandoned meanwhile."""
        self.retries += 1
        first, longest = self._times.first_backoff_seconds, self._times.max_backoff_seconds
        try:
            await asyncio.wait_for(abandoned.wait(), backoff_seconds(attempt, first=first, longest=longest))
        except TimeoutError:
            return True
        return False

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            raise RuntimeError("EngineClient is used outside `async with`")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("EngineClient is used from another event loop than the one that opened it")
        return self._http


def _json_object(answer: httpx.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except ValueError as error:
        raise EngineError("engine_bad_reply", f"no JSON: {answer.text[:200]!r}") from error
    if not isinstance(content, dict):
        raise EngineError("engine_bad_reply", f"expected one object, got {type(content).__name__}")
    return content
