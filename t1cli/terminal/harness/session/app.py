"""The ASGI application over all open sessions: a key in the path or a header, OpenAI's or Anthropic's routes behind."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from t1cli.errors import BadInput, T1Error
from t1cli.terminal.asgi import (
    Answer,
    Disconnected,
    Receive,
    Scope,
    Send,
    TooLarge,
    read_json,
    serve_json,
    until_disconnect,
)
from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.harness.session.anthropic_wire import (
    error_answer,
    message_answer,
    message_events,
    messages_request,
)
from t1cli.terminal.harness.session.chat_request import ChatRefusal, ChatRequest
from t1cli.terminal.harness.session.openai_reply import chat_completion, error_body, events
from t1cli.terminal.harness.session.openai_request import chat_request
from t1cli.terminal.harness.session.session import Session

logger = logging.getLogger(__name__)
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Of one request: far above any context that a model has."""
_PREFIX: Final = "/sessions/"


@dataclass(frozen=True)
class _Route:
    session: Session
    path: str


@dataclass(frozen=True)
class _Wire:
    """How one API writes requests, answers and streams."""

    id_prefix: str
    read: Callable[[dict[str, Any]], ChatRequest]
    whole: Callable[..., dict[str, Any]]
    events: Callable[..., Iterable[str]]


_WIRES: Final = {
    "/v1/chat/completions": _Wire("chatcmpl-", chat_request, chat_completion, events),
    "/v1/messages": _Wire("msg_", messages_request, message_answer, message_events),
}


class SessionApp:
    """Sessions by their keys. A key is the only way in: it cannot be guessed, and no answer tells keys apart."""

    def __init__(self, *, model: str = "policy", max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._model, self._max_body_bytes = model, max_body_bytes
        self._sessions: dict[bytes, Session] = {}

    def add(self, session: Session) -> str:
        """Open a session to the wire; returns its key."""
        key = secrets.token_urlsafe(32)
        self._sessions[_digest(key)] = session
        return key

    def remove(self, key: str) -> None:
        """Close a session to the wire."""
        self._sessions.pop(_digest(key), None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await serve_json(self._answer, scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        """The one place where failures become statuses."""
        try:
            route = self._route(scope)
            if (scope["method"], route.path) == ("GET", "/v1/models"):
                return Answer({"object": "list", "data": [{"id": self._model, "object": "model", "owned_by": "t1"}]})
            wire = _WIRES.get(route.path)
            if scope["method"] == "POST" and wire is not None:
                body = await read_json(receive, max_bytes=self._max_body_bytes)
                return await until_disconnect(self._complete(route.session, wire, body), receive)
            raise ChatRefusal(404, "no_such_route", f"no {scope['method']} {route.path}")
        except ChatRefusal as refusal:
            return _error(scope, refusal.status, refusal.code, refusal.message, refusal.param)
        except TooLarge as error:
            return _error(scope, 413, "body_too_large", error.message)
        except BadInput as error:
            return _error(scope, 400, "invalid_json", error.message)
        except EngineError as error:
            return _error(scope, 502, error.cause, str(error))
        except T1Error as error:
            return _error(scope, 500, "rollout_aborted", error.message)
        except RecursionError:
            return _error(scope, 400, "invalid_value", "the request is nested beyond reason")
        except Disconnected:
            raise
        except Exception:
            # A bug of ours: the harness learns that, the log learns which.
            logger.exception("a chat request failed")
            return _error(scope, 500, "internal_error", "the session endpoint failed; its log says why")

    def _route(self, scope: Scope) -> _Route:
        path = str(scope["path"])
        if path.startswith(_PREFIX):
            key, _, rest = path.removeprefix(_PREFIX).partition("/")
            path = f"/{rest}"
        else:
            headers = dict(scope["headers"])
            sent = headers.get(b"authorization") or headers.get(b"x-api-key", b"")
            key = sent.decode("latin-1").removeprefix("Bearer ")
        # Looked up by its digest: how long that takes says nothing about the key.
        session = self._sessions.get(_digest(key))
        if session is None:
            raise ChatRefusal(404, "no_such_session", "there is no such session, or it has ended")
        return _Route(session, path)

    async def _complete(self, session: Session, wire: _Wire, body: dict[str, Any]) -> Answer:
        request = wire.read(body)
        completion = await session.complete(request)
        head = {
            "id": f"{wire.id_prefix}{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": request.model or self._model,
        }
        if not request.is_streamed:
            return Answer(wire.whole(request, completion, head=head))
        stream = "".join(wire.events(request, completion, head=head))
        return Answer(stream, headers={"content-type": "text/event-stream", "cache-control": "no-cache"})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _error(scope: Scope, status: int, code: str, message: str, param: str | None = None) -> Answer:
    if str(scope["path"]).endswith("/v1/messages"):
        return Answer(error_answer(status, code, message), status)
    return Answer(error_body(status, code, message, param), status)
