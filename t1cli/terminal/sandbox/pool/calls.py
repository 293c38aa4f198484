"""Calls to one pool server: what it said, or that it is away; and a pause that all callers keep together."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from t1cli.terminal.backoff import backoff_seconds

if TYPE_CHECKING:
    import httpx

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 15.0


class ServerAway(Exception):
    """No answer came. `reached` says whether the request may have arrived."""

    def __init__(self, message: str, *, reached: bool) -> None:
        super().__init__(message)
        self.reached = reached


class ServerSaid(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: str, message: str, retry_after_seconds: float | None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message
        self.retry_after_seconds = retry_after_seconds

    @property
    def full(self) -> bool:
        """The server has no room now, or is about to leave: no fault of the request."""
        return self.status == 429 or self.status == 503


@dataclass
class Pause:
    """Until when nobody asks a server for leases; doubles with every refusal in a row, and one caller tries first.

    (catalogue S2)
    """

    until_seconds: float = 0.0
    refusals: int = 0

    def refused(self, retry_after_seconds: float | None = None) -> None:
        """A refusal or an outage: everybody waits, with a random part so that several clients do not meet again."""
        now = time.monotonic()
        if now < self.until_seconds:
            return
        self.refusals += 1
        self.until_seconds = now + _pause_seconds(self.refusals, asked=retry_after_seconds or 0.0)

    def answered(self) -> None:
        """The server gave a lease."""
        self.refusals = 0
        self.until_seconds = 0.0

    @property
    def left_seconds(self) -> float:
        return max(0.0, self.until_seconds - time.monotonic())


class ServerCalls:
    """One server's URL, connections and pause. Belongs to one event loop."""

    def __init__(self, url: str, *, token: str = "", transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        self.pause = Pause()
        self.probing = asyncio.Lock()
        """Held by the one caller that tries a server after a refusal."""
        self._token = token
        self._transport = transport
        self._http: httpx.AsyncClient | None = None

    async def get(self, path: str) -> dict[str, Any]:
        """The JSON of a GET. Raises ServerAway and ServerSaid."""
        return await self._request("GET", path, None, _CONNECT_SECONDS)

    async def post(self, path: str, body: dict[str, Any], *, answer_seconds: float = _ANSWER_SECONDS) -> dict[str, Any]:
        """The JSON of a POST. Raises ServerAway and ServerSaid."""
        return await self._request("POST", path, body, answer_seconds)

    async def post_again(
        self, path: str, body: dict[str, Any], *, attempts: int = 3, answer_seconds: float = _ANSWER_SECONDS
    ) -> dict[str, Any]:
        """The same for a request that may be repeated, because its id makes the server do it once."""
        for attempt in range(attempts):
            try:
                return await self.post(path, body, answer_seconds=answer_seconds)
            except (ServerAway, ServerSaid) as problem:
                # A failure without a code comes from something in front of the server.
                said = isinstance(problem, ServerSaid) and (problem.code or problem.status < 500)
                if said or attempt == attempts - 1:
                    raise
                await asyncio.sleep(_pause_seconds(attempt + 1))
        raise AssertionError("no attempt")

    async def close(self) -> None:
        """Give the connections back."""
        if self._http is not None:
            await self._http.aclose()

    async def _request(self, method: str, path: str, body: Any, answer_seconds: float) -> dict[str, Any]:
        import httpx

        timeout = httpx.Timeout(answer_seconds, connect=_CONNECT_SECONDS, pool=answer_seconds)
        try:
            response = await self._client().request(method, path, json=body, timeout=timeout)
        except httpx.HTTPError as error:
            reached = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            raise ServerAway(f"{self.url}{path}: {type(error).__name__}: {error}", reached=reached) from error
        return _content(response)

    def _client(self) -> httpx.AsyncClient:
        import httpx

        if self._http is None:
            self._http = httpx.AsyncClient(
                base_url=self.url,
                headers={"authorization": f"Bearer {self._token}"} if self._token else {},
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
                transport=self._transport,
                trust_env=False,
            )
        return self._http


def _pause_seconds(failures: int, *, asked: float = 0.0) -> float:
    return backoff_seconds(failures, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS, asked=asked)


def _content(response: httpx.Response) -> dict[str, Any]:
    try:
        found = json.loads(response.content)
    except ValueError:
        found = {}
    content: dict[str, Any] = found if isinstance(found, dict) else {}
    if response.status_code == 200:
        return content
    message = str(content.get("error") or response.text[:300])
    try:
        retry_after = float(response.headers["retry-after"])
    except (KeyError, ValueError):
        retry_after = None
    raise ServerSaid(response.status_code, str(content.get("code") or ""), message, retry_after)
