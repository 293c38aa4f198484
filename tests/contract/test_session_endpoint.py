"""The session endpoint as its users meet it: OpenAI's own client over real HTTP, the embedded engine behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from t1cli.embedded.chat_renderer import TinyRenderer
from t1cli.embedded.template import TinyChatTemplate
from t1cli.terminal.harness.engine_client import ClientTimes, EngineClient
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.harness.session.server import OpenSession, SessionServer
from t1cli.terminal.trajectory.assemble import Assembler, RowLabel
from t1cli.terminal.trajectory.routing import RoutingShape
from tests.contract.served_engine import served_engine

openai = pytest.importorskip("openai")

SHAPE = RoutingShape(layers=2, top_k=2, experts=4)
TIMES = ClientTimes(generate_seconds=120, control_seconds=60)
LIMITS = Limits(
    context_tokens=3000,
    max_new_tokens_per_turn=12,
    max_turns=50,
    observation_tokens=100,
    command_timeout_seconds=5.0,
    temperature=1.0,
    top_p=1.0,
)
LABEL = RowLabel(trial_id="trial", group_id=1, task="task", family="files", reward=0.5)


@pytest.fixture(scope="module")
def engine_url() -> Iterator[str]:
    """The embedded engine's own server with random weights over the real vocabulary of its family, as a thread."""

    from t1cli.embedded.decoder import DecoderSettings
    from t1cli.embedded.inference import InferenceEngine
    from t1cli.embedded.model import TinyMoE, TinyMoEConfig

    config = TinyMoEConfig(
        vocab_size=TinyChatTemplate().tokenizer.size,
        hidden_size=32,
        num_layers=SHAPE.layers,
        num_heads=2,
        num_kv_heads=2,
        head_dim=16,
        num_experts=SHAPE.experts,
        experts_per_token=SHAPE.top_k,
        expert_size=16,
    )
    settings = DecoderSettings(slots=4, max_context=4096)
    engine = InferenceEngine(config, TinyMoE(config, seed=1).state_dict(), settings, weight_version="3")
    with served_engine(engine) as url:
        yield url


@asynccontextmanager
async def opened(engine_url: str, assembler: Assembler) -> AsyncIterator[OpenSession]:
    async with (
        EngineClient(engine_url, routing=SHAPE, times=TIMES) as engine,
        SessionServer(TinyRenderer()) as server,
        server.open(engine=engine, limits=LIMITS, trial_id="trial", seed=3, on_turn=assembler.add) as session,
    ):
        yield session


def play(engine_url: str, harness: Callable[[Any, OpenSession], Awaitable[Any]]) -> tuple[Any, Assembler, OpenSession]:
    """Run a harness that has nothing but OpenAI's client; what it returned, the assembler and the session."""
    assembler = Assembler(trial_id="trial", routing="required")

    async def run() -> tuple[Any, OpenSession]:
        async with opened(engine_url, assembler) as session:
            client = openai.AsyncOpenAI(base_url=session.base_url, api_key="unused", max_retries=0, timeout=120)
            async with client:
                return await harness(client, session), session

    answer, session = asyncio.run(run())
    return answer, assembler, session


async def talk(client: Any, turns: int, **more: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "write a file"}]
    for turn in range(turns):
        answer = await client.chat.completions.create(model="any", messages=messages, **more)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        messages.append({"role": "user", "content": f"exit code {turn}"})
    return messages


def test_openais_client_and_the_embedded_engine_make_one_exact_row_with_routing(engine_url: str) -> None:
    _, assembler, opened_session = play(engine_url, lambda client, _: talk(client, 6))
    (row,) = assembler.rows(LABEL)
    report = opened_session.session.report
    assert row.audit.count("strict") == 6 and row.audit.drifted_in_loss == 0 and row.audit.masked == {}
    assert row.routed_experts is not None and row.routed_experts.shape[0] == len(row.tokens) - 1
    assert int(row.loss_mask.sum()) == report.sampled_tokens == row.audit.sampled_tokens
    assert report.encoded_tokens == len(row.tokens) - report.sampled_tokens
    assert set(row.weight_versions) == {3} and np.all(row.log_probs[row.loss_mask == 1] < 0)


def test_openais_client_reads_the_stream_the_usage_and_the_models(engine_url: str) -> None:
    async def harness(client: Any, _: OpenSession) -> tuple[list[Any], Any]:
        stream = await client.chat.completions.create(
            model="any",
            messages=[{"role": "user", "content": "x"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        return [chunk async for chunk in stream], [model async for model in client.models.list()]

    (chunks, models), assembler, _ = play(engine_url, harness)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    (row,) = assembler.rows(LABEL)
    assert text == TinyChatTemplate().decode(tuple(row.tokens[row.loss_mask == 1].tolist()))
    assert chunks[-1].usage.completion_tokens == int(row.loss_mask.sum()) and models[0].id == "policy"


def test_openais_client_raises_its_own_errors(engine_url: str) -> None:
    async def harness(client: Any, session: OpenSession) -> None:
        messages = [{"role": "user", "content": "x"}]
        strange = client.with_options(base_url=session.base_url.replace(session.key, session.key[::-1]))
        with pytest.raises(openai.NotFoundError) as unknown:
            await strange.chat.completions.create(model="any", messages=messages)
        assert unknown.value.code == "no_such_session"
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model="any", messages=messages, stop="x")
        assert (refused.value.code, refused.value.param) == ("invalid_value", "stop")
        with pytest.raises(openai.BadRequestError) as full:
            await client.chat.completions.create(model="any", messages=[{"role": "user", "content": "x " * 3000}])
        assert full.value.code == "context_length_exceeded"

    _, assembler, _ = play(engine_url, harness)
    assert assembler.turns == 0


class HangingEngine:
    """An engine that never answers, and knows whether it was told to stop."""

    def __init__(self) -> None:
        self.asked, self.aborted = asyncio.Event(), asyncio.Event()

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Any) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.aborted.set()

    def take_lost(self, rid: str) -> int:
        return 7


def test_a_client_that_hangs_up_stops_the_engine() -> None:
    async def run() -> int:
        engine = HangingEngine()
        limits: dict[str, Any] = {"limits": LIMITS, "trial_id": "trial", "seed": 3, "on_turn": lambda turn: None}
        async with SessionServer(TinyRenderer()) as server, server.open(engine=engine, **limits) as session:
            async with openai.AsyncOpenAI(base_url=session.base_url, api_key="unused", max_retries=0) as client:
                request = asyncio.create_task(talk(client, 1))
                await engine.asked.wait()
                request.cancel()
                await asyncio.wait({request})
            await engine.aborted.wait()
        return session.session.report.lost_tokens

    assert asyncio.run(run()) == 7
