"""The engine client against anything that speaks SGLang's /generate: a scripted double and the embedded server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import uvicorn

from t1cli.terminal.harness.engine import EngineError, Generation, Sampling
from t1cli.terminal.harness.engine_client import ClientTimes, EngineClient
from t1cli.terminal.trajectory.routing import RoutingShape, WrongRouting, encode_routing

SHAPE = RoutingShape(layers=2, top_k=2, experts=4)
TIMES = ClientTimes(generate_seconds=120, control_seconds=60, abandon_seconds=60, first_backoff_seconds=0.01)
GREEDY = Sampling(max_new_tokens=6)
Reaction = Callable[[dict[str, Any]], Awaitable[tuple[int, Any]]]


@dataclass
class Double:
    """An ASGI app whose reaction to /generate a test chooses; by default it samples 7, 7, … to the limit."""

    reaction: Reaction | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    healthy: bool = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive()).get("more_body") or message["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, answer = await self._answer(scope["path"], json.loads(body or b"{}"))
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/health":
            return (200 if self.healthy else 503), {}
        if path == "/abort_request":
            self.aborted.append(body["rid"])
            return 200, {"success": True}
        self.bodies.append(body)
        return await (self.reaction or self.sample)(body)

    async def sample(self, body: dict[str, Any]) -> tuple[int, Any]:
        limit = body["sampling_params"]["max_new_tokens"]
        slow = body["rid"].startswith("slow")
        done = 0
        while done < limit and body["rid"] not in self.aborted:
            done += 1
            await asyncio.sleep(0.02 if slow else 0)
        return 200, reply_of(len(body["input_ids"]), done, aborted=done < limit)


def reply_of(prompt: int, sampled: int, *, aborted: bool = False) -> dict[str, Any]:
    routing = np.zeros((prompt + sampled - 1, SHAPE.layers, SHAPE.top_k), dtype=np.uint8)
    return {
        "text": "",
        "output_ids": [7] * sampled,
        "meta_info": {
            "finish_reason": {"type": "abort" if aborted else "length"},
            "output_token_logprobs": [[-0.5, 7, None]] * sampled,
            "weight_version": "3",
            "routed_experts": encode_routing(routing),
        },
    }


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """An ASGI app over real HTTP on a free port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(120)


@pytest.fixture
def double() -> Double:
    return Double()


@pytest.fixture
def double_url(double: Double) -> Iterator[str]:
    with served(double) as url:
        yield url


@pytest.fixture(scope="module")
def embedded_url() -> Iterator[str]:
    """The CPU engine with random weights, in this process."""
    from t1cli.embedded.decoder import DecoderSettings
    from t1cli.embedded.inference import InferenceEngine
    from t1cli.embedded.model import TinyMoE, TinyMoEConfig
    from t1cli.embedded.server import create_app

    config = TinyMoEConfig(
        vocab_size=64,
        hidden_size=32,
        num_layers=SHAPE.layers,
        num_heads=2,
        num_kv_heads=2,
        head_dim=16,
        num_experts=SHAPE.experts,
        experts_per_token=SHAPE.top_k,
        expert_size=16,
    )
    weights = TinyMoE(config, seed=1).state_dict()
    settings = DecoderSettings(slots=8, max_context=4096)
    with InferenceEngine(config, weights, settings, weight_version="3") as engine, served(create_app(engine)) as url:
        yield url


@pytest.fixture(params=["double", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


def ask(
    url: str, prompt: tuple[int, ...] = (1, 2, 3), times: ClientTimes = TIMES, sampling: Sampling = GREEDY
) -> Generation:
    async def run() -> Generation:
        async with EngineClient(url, routing=SHAPE, times=times) as engine:
            return await engine.generate(prompt, rid="one", sampling=sampling)

    return asyncio.run(run())


@pytest.mark.catalogue("F2")
def test_a_reply_has_ids_log_probs_routing_and_a_version(url: str) -> None:
    generation = ask(url, prompt=(1, 2, 3, 4))
    count = len(generation.sampled_ids)
    assert 1 <= count <= 6 and len(generation.log_probs) == count
    assert all(log_prob <= 0 for log_prob in generation.log_probs)
    assert generation.routed_experts is not None and generation.routed_experts.dtype == np.uint8
    assert generation.routed_experts.shape == (4 + count - 1, SHAPE.layers, SHAPE.top_k)
    assert generation.finish_reason == "length" and generation.weight_version == 3


def test_many_requests_of_one_client_are_answered_each_with_its_own(url: str) -> None:
    async def run() -> list[Generation]:
        async with EngineClient(url, routing=SHAPE, times=TIMES) as engine:
            asked = [
                engine.generate((1,) * length, rid=f"r{length}", sampling=replace(GREEDY, max_new_tokens=length))
                for length in range(1, 25)
            ]
            return list(await asyncio.gather(*asked))

    for length, generation in enumerate(asyncio.run(run()), start=1):
        assert len(generation.sampled_ids) == length
        assert generation.routed_experts is not None and len(generation.routed_experts) == 2 * length - 1


def test_cancelling_aborts_the_request_and_counts_what_was_sampled(url: str) -> None:
    async def cancelled_after(pause: float) -> tuple[int, int]:
        async with EngineClient(url, routing=SHAPE, times=TIMES) as engine:
            rid, long = f"slow-{pause}", replace(GREEDY, max_new_tokens=4000)
            task = asyncio.create_task(engine.generate((1, 2), rid=rid, sampling=long))
            await asyncio.sleep(pause)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return engine.take_lost(rid), engine.take_lost(rid)

    # On a busy machine the first token may come after the shorter pauses: nothing is sampled then, and nothing lost.
    answers = (asyncio.run(cancelled_after(pause)) for pause in (0.2, 1.0, 5.0, 20.0))
    lost, again = next((answer for answer in answers if answer[0]), (0, 0))
    assert 0 < lost < 4000, "fewer than asked for: nobody waited for the rest"
    assert again == 0


@pytest.mark.catalogue("C6")
def test_health_is_asked_within_its_time_limit(url: str, double: Double) -> None:
    async def run(address: str, control_seconds: float = TIMES.control_seconds) -> bool:
        async with EngineClient(address, times=replace(TIMES, control_seconds=control_seconds)) as engine:
            return await engine.healthy()

    assert asyncio.run(run(url))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert not asyncio.run(run(f"http://127.0.0.1:{silent.getsockname()[1]}", control_seconds=0.3))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_is_retried(double: Double, double_url: str, status: int) -> None:
    async def fail_twice(body: dict[str, Any]) -> tuple[int, Any]:
        return (status, {}) if len(double.bodies) <= 2 else await double.sample(body)

    double.reaction = fail_twice
    assert len(ask(double_url).sampled_ids) == 6
    assert len(double.bodies) == 3


@pytest.mark.parametrize(
    ("status", "answer", "cause", "requests"),
    [
        (400, {}, "engine_http_400", 1),
        (500, {}, "engine_http_500", 5),
        (200, b"<html>", "engine_bad_reply", 1),
        (200, [], "engine_bad_reply", 1),
        (200, {"output_ids": [1]}, "engine_bad_reply", 1),
        (200, {"output_ids": [1], "meta_info": {"output_token_logprobs": [[-1, 2, None]]}}, "engine_bad_reply", 1),
        (200, {"output_ids": [1, 2], "meta_info": {"output_token_logprobs": [[-1, 1, None]]}}, "engine_bad_reply", 1),
    ],
)
def test_a_lasting_failure_has_a_cause(
    double: Double, double_url: str, status: int, answer: Any, cause: str, requests: int
) -> None:
    async def fail(body: dict[str, Any]) -> tuple[int, Any]:
        return status, answer

    double.reaction = fail
    with pytest.raises(EngineError) as caught:
        ask(double_url)
    assert caught.value.cause == cause and len(double.bodies) == requests


@pytest.mark.catalogue("F3")
def test_routing_of_another_length_is_an_assertion_not_a_guess(double: Double, double_url: str) -> None:
    async def one_row_short(body: dict[str, Any]) -> tuple[int, Any]:
        return 200, reply_of(2, 2) | {"output_ids": [7, 7]}

    double.reaction = one_row_short
    with pytest.raises(WrongRouting):
        ask(double_url, prompt=(1, 2, 3))


@pytest.mark.catalogue("C6")
def test_a_reply_that_never_comes_is_aborted_at_its_time_limit(double: Double, double_url: str) -> None:
    async def hang(body: dict[str, Any]) -> tuple[int, Any]:
        while body["rid"] not in double.aborted:
            await asyncio.sleep(0.01)
        return 200, reply_of(3, 4, aborted=True)

    double.reaction = hang

    async def run() -> int:
        async with EngineClient(double_url, routing=SHAPE, times=replace(TIMES, generate_seconds=0.2)) as engine:
            with pytest.raises(EngineError, match="engine_timeout"):
                await engine.generate((1, 2, 3), rid="one", sampling=GREEDY)
            return engine.take_lost("one")

    assert asyncio.run(run()) == 4 and double.aborted == ["one"] and len(double.bodies) == 1


def test_a_cancelled_request_is_not_sent_again_by_a_retry(double: Double, double_url: str) -> None:
    async def fail(body: dict[str, Any]) -> tuple[int, Any]:
        return 503, {}

    double.reaction = fail

    async def run() -> bool:
        slow_retry = replace(TIMES, first_backoff_seconds=900, max_backoff_seconds=900, abandon_seconds=900)
        async with EngineClient(double_url, times=slow_retry) as engine:
            task = asyncio.create_task(engine.generate((1,), rid="one", sampling=GREEDY))
            while not double.bodies:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.wait({task}, timeout=120)
            return task.done() and task.cancelled()

    assert asyncio.run(run()), "the pause before a retry ends with the cancellation"
    assert len(double.bodies) == 1


def test_a_broken_connection_is_aborted_before_it_is_asked_again() -> None:
    """A raw server that takes the first request and hangs up, and answers the second."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode().split()[1]
        length = 0
        while (header := await reader.readline()) not in (b"\r\n", b""):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        await reader.readexactly(length)
        seen.append(line)
        if line == "/generate" and seen.count(line) == 1:
            writer.close()
            return
        content = json.dumps(reply_of(1, 2) if line == "/generate" else {}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()
        writer.close()

    async def run() -> Generation:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, EngineClient(f"http://127.0.0.1:{port}", routing=SHAPE, times=TIMES) as engine:
            return await engine.generate((1,), rid="one", sampling=GREEDY)

    assert len(asyncio.run(run()).sampled_ids) == 2
    assert seen == ["/generate", "/abort_request", "/generate"]


def test_an_engine_that_is_away_is_an_engine_error() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        with pytest.raises(EngineError, match="engine_unreachable"):
            ask(f"http://127.0.0.1:{sock.getsockname()[1]}", times=replace(TIMES, max_retries=1))


def test_a_client_refuses_another_event_loop_than_its_own(double_url: str) -> None:
    client = EngineClient(double_url)
    asyncio.run(client.__aenter__())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(client.generate((1,), rid="one", sampling=GREEDY))


def test_what_is_asked_is_what_slime_asks(double: Double, double_url: str) -> None:
    ask(double_url, sampling=Sampling(max_new_tokens=5, temperature=0.7, top_p=0.9, stop_ids=(4,), seed=11))
    (body,) = double.bodies
    assert body["input_ids"] == [1, 2, 3] and body["return_logprob"] and body["return_routed_experts"]
    assert body["sampling_params"] == {
        "max_new_tokens": 5,
        "temperature": 0.7,
        "top_p": 0.9,
        "stop_token_ids": [4],
        "no_stop_trim": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "sampling_seed": 11,
    }
