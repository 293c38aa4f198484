"""The little of ASGI that a JSON server needs: read a body, notice a client that leaves, send an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from t1cli.errors import BadInput

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

T = TypeVar("T")

TEXT = "text/plain; version=0.0.4"
MAX_BODY_BYTES = 96 * 1024 * 1024


class Disconnected(Exception):
    """The client has gone; nobody reads the answer."""


@dataclass(frozen=True)
class Answer:
    """Status and content of one response; a text is sent as it is, everything else as JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class TooLarge(BadInput):
    """A body longer than the server takes."""


async def read_json(receive: Receive, *, max_bytes: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The body as an object, {} for none. Raises BadInput, TooLarge among them, and Disconnected."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise TooLarge(f"a body of more than {max_bytes} bytes")
        if not message.get("more_body"):
            break
    try:
        found = json.loads(bytes(body)) if body else {}
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadInput("the body must be a JSON object")
    return found


async def until_disconnect(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """The result of `work`; it is cancelled and Disconnected raised when the client leaves first."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(receive))
    try:
        either: set[asyncio.Future[Any]] = {task, gone}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Disconnected
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()


async def send_answer(send: Send, answer: Answer) -> None:
    """Send one response."""
    is_text = isinstance(answer.body, str)
    body = answer.body.encode() if is_text else json.dumps(answer.body, ensure_ascii=False).encode("utf-8", "replace")
    headers = {
        "content-type": TEXT if is_text else "application/json",
        "content-length": str(len(body)),
        **answer.headers,
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def serve_json(
    answer: Callable[[Scope, Receive], Awaitable[Answer]], scope: Scope, receive: Receive, send: Send
) -> None:
    """A whole application out of what answers one request; nothing is sent to a client that has gone."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["type"] == "http":
        try:
            found = await answer(scope, receive)
        except Disconnected:
            return
        await send_answer(send, found)


async def lifespan(receive: Receive, send: Send) -> None:
    """Answer a server's start and stop messages; the work itself is started and stopped by its owner."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
