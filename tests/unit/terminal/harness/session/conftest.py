"""A model that replies from a script with ids that no tokenizer would choose, and a harness that only knows text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
import pytest

from t1cli.terminal.harness.chat.renderer import AppendOnlyRenderer
from t1cli.terminal.harness.engine import EngineError, Generation, Sampling
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.harness.session.app import SessionApp
from t1cli.terminal.harness.session.session import Session
from t1cli.terminal.trajectory.assemble import Assembler, RowLabel
from t1cli.terminal.trajectory.text_space import TextSpace

LIMITS = Limits(
    context_tokens=100_000,
    max_new_tokens_per_turn=500,
    max_turns=100,
    observation_tokens=100,
    command_timeout_seconds=5.0,
    temperature=1.0,
    top_p=1.0,
)
LABEL = RowLabel(trial_id="trial", group_id=1, task="task", family="files", reward=0.5)


class Said(NamedTuple):
    """One reply of the script: its text and which of the family's stop ids ends it; None for a cut one."""

    text: str
    stop: int | None = 0


@dataclass
class ScriptedModel:
    """An engine. It samples character by character: encoding the text of a reply does not give the reply's ids."""

    renderer: AppendOnlyRenderer
    script: Iterator[Said]
    before: Callable[[], Awaitable[None]] | None = None
    finish_reason: str = ""
    error: EngineError | None = None
    prompts: list[tuple[int, ...]] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        self.prompts.append(prompt_ids)
        self.samplings.append(sampling)
        try:
            if self.before is not None:
                await self.before()
        except asyncio.CancelledError:
            self.lost[rid] = 3
            raise
        if self.error is not None:
            raise self.error
        said = next(self.script)
        spelt = (token for character in said.text for token in self.renderer.tokenizer.encode(character))
        ids = (*spelt, *(() if said.stop is None else (self.renderer.stop_ids[said.stop],)))
        return Generation(
            sampled_ids=ids,
            log_probs=tuple(-0.01 * (1 + index) for index in range(len(ids))),
            routed_experts=None,
            finish_reason=self.finish_reason or ("length" if said.stop is None else "stop"),
            weight_version=4,
        )

    def take_lost(self, rid: str) -> int:
        return self.lost.pop(rid, 0)


@dataclass
class Bench:
    """One session behind the ASGI application, with the assembler that gets its turns."""

    model: ScriptedModel
    session: Session
    app: SessionApp
    key: str
    assembler: Assembler
    http: httpx.AsyncClient

    async def post(self, body: Any, *, key: str | None = None) -> httpx.Response:
        """A chat request as a harness sends it."""
        content = body if isinstance(body, (bytes, str)) else json.dumps(body)
        path = f"/sessions/{self.key if key is None else key}/v1/chat/completions"
        return await self.http.post(path, content=content)

    async def chat(self, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """The assistant's message to these messages; it is appended to them as a client would keep it."""
        answer = await self.post({"model": "m", "messages": messages, **more})
        assert answer.status_code == 200, answer.text
        message = answer.json()["choices"][0]["message"]
        # As most clients do: what they do not know they do not send back.
        messages.append({key: value for key, value in message.items() if key != "reasoning_content"})
        return dict(answer.json())


@asynccontextmanager
async def bench_of(
    renderer: AppendOnlyRenderer,
    script: Sequence[str | tuple[str, int | None]],
    *,
    limits: Limits = LIMITS,
    text: TextSpace | None = None,
    **model: Any,
) -> AsyncIterator[Bench]:
    """A session over a scripted model; a text alone is a reply that ends as usual."""
    replies = iter([Said(said) if isinstance(said, str) else Said(*said) for said in script])
    engine = ScriptedModel(renderer, replies, **model)
    assembler = Assembler(trial_id="trial", routing="kept", text=text)
    session = Session(renderer=renderer, engine=engine, limits=limits, trial_id="trial", seed=5, on_turn=assembler.add)
    app = SessionApp(max_body_bytes=200_000)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://session", timeout=120) as http:
        yield Bench(engine, session, app, app.add(session), assembler, http)


@pytest.fixture(scope="session")
def benches() -> SimpleNamespace:
    """Everything above, for test modules."""
    return SimpleNamespace(
        bench_of=bench_of, Said=Said, ScriptedModel=ScriptedModel, LIMITS=LIMITS, LABEL=LABEL, replace=replace
    )
