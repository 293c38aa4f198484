"""A judge behind any endpoint that speaks OpenAI's chat completions: bounded waits, retries, no key in any text."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from t1cli.errors import BadInput
from t1cli.terminal.backoff import RETRIED_STATUS, backoff_seconds
from t1cli.terminal.tasks.audit.files import TaskFiles
from t1cli.terminal.tasks.audit.verdict import Malformed, Verdict, verdict_of

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "T1_JUDGE_KEY"
"""Environment variable that holds an endpoint's key; there is no other way to give one."""


class JudgeAway(Exception):
    """No answer was to be had: the endpoint is away, refuses, or stays too busy."""


@dataclass(frozen=True)
class JudgeTimes:
    """Every wait, in seconds, and how often is asked again."""

    answer_seconds: float = 300.0
    """One answer, without retries."""
    first_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 30.0
    tries: int = 5
    """Requests until a reply with status 200."""
    answers: int = 3
    """Answers until one is well formed."""


class Judge:
    """Use as `async with Judge(url, model) as judge` inside the loop that uses it."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str = "",
        times: JudgeTimes | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.name = f"{model} at {endpoint_of(url)}"
        self._endpoint, self._model, self._key = endpoint_of(url), model, key
        self._times = times or JudgeTimes()
        self._transport = transport
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Judge:
        import httpx

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        timeout = httpx.Timeout(self._times.answer_seconds, connect=min(30.0, self._times.answer_seconds))
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout, transport=self._transport, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.aclose()
        self._http = None

    async def verdict(self, messages: list[dict[str, str]], files: TaskFiles) -> Verdict:
        """The judge's verdict. Raises Malformed when no answer is well formed, JudgeAway when none is to be had."""
        problem = Malformed("never asked")
        for _ in range(self._times.answers):
            try:
                return verdict_of(self._hushed(_content(await self._reply(messages))), files)
            except Malformed as error:
                problem = error
        raise problem

    async def _reply(self, messages: list[dict[str, str]]) -> httpx.Response:
        problem = ""
        for attempt in range(self._times.tries):
            if attempt:
                first, longest = self._times.first_backoff_seconds, self._times.max_backoff_seconds
                await asyncio.sleep(backoff_seconds(attempt, first=first, longest=longest))
            reply, problem = await self._post(messages)
            if reply is not None:
                return reply
        raise JudgeAway(f"{problem}; {self._times.tries} tries")

    async def _post(self, messages: list[dict[str, str]]) -> tuple[httpx.Response | None, str]:
        import httpx

        assert self._http is not None, "Judge is used outside `async with`"
        body = {"model": self._model, "messages": messages, "response_format": {"type": "json_object"}}
        try:
            # httpx bounds each read; the whole answer is bounded here.
            async with asyncio.timeout(self._times.answer_seconds):
                reply = await self._http.post(self._endpoint, json=body)
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            return None, self._hushed(f"no answer ({type(error).__name__})")
        if reply.status_code == 200:
            return reply, ""
        said = self._hushed(f"HTTP {reply.status_code}: {reply.text[:200]}")
        if reply.status_code not in RETRIED_STATUS:
            raise JudgeAway(said)
        return None, said

    def _hushed(self, text: str) -> str:
        """Text without the key, which an endpoint may echo."""
        return text.replace(self._key, "***") if self._key else text


def endpoint_of(url: str) -> str:
    """Where chat completions are posted. Raises BadInput for no http URL, or one that holds a secret."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput("the judge's URL is no http address", where="--judge", hint="such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query:
        hint = f"put the key into the environment variable {KEY_VARIABLE}"
        raise BadInput("the judge's URL holds a name, password or query", where="--judge", hint=hint)
    plain = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    return plain if plain.endswith("/chat/completions") else f"{plain}/chat/completions"


def _content(reply: httpx.Response) -> str:
    try:
        content: Any = reply.json()["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise Malformed("the reply is no chat completion") from error
    if not isinstance(content, str):
        raise Malformed("the reply holds no text")
    return content
