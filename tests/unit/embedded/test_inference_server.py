"""The server keeps SGLang's contract: shapes, errors, batching, abort, pause, and the weight barrier."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from t1cli.embedded.decoder import DecoderSettings
from t1cli.embedded.inference import EngineBroken, GenerateRequest, InferenceEngine
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.sampling import SamplingParams, sample
from t1cli.embedded.server import create_app, listen
from t1cli.embedded.weights import save_weights
from tests.unit.embedded.conftest import tiny_config

CONFIG = tiny_config(512)
LONG = 400
"""New tokens of a request that must still be running when the test looks."""


@pytest.fixture
def engine() -> Iterator[InferenceEngine]:
    settings = DecoderSettings(slots=4, max_context=1024)
    with InferenceEngine(CONFIG, TinyMoE(CONFIG, seed=1).state_dict(), settings) as engine:
        yield engine


@asynccontextmanager
async def client_of(engine: InferenceEngine) -> AsyncIterator[httpx.AsyncClient]:
    # The in-process transport never disconnects by itself, as a client that waits for its answer does not.
    transport = httpx.ASGITransport(app=create_app(engine))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=120) as client:
        yield client


def body(prompt: list[int], *, new: int = 8, seed: int = 0, **more: Any) -> dict[str, Any]:
    params = {"max_new_tokens": new, "temperature": 1.0, "sampling_seed": seed}
    return {"input_ids": prompt, "sampling_params": params, "return_logprob": True, **more}


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.sleep(0.005)


def run(engine: InferenceEngine, scenario: Callable[[httpx.AsyncClient], Any]) -> Any:
    async def main() -> Any:
        async with client_of(engine) as client:
            return await asyncio.wait_for(scenario(client), 120)

    return asyncio.run(main())


def test_generate_answers_ids_log_probs_and_routing(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        return (await client.post("/generate", json=body([7, 8, 9], new=5, rid="a", return_routed_experts=True))).json()

    answer = run(engine, scenario)
    meta = answer["meta_info"]
    assert len(answer["output_ids"]) == meta["completion_tokens"] == 5 and meta["prompt_tokens"] == 3
    assert meta["id"] == "a" and meta["weight_version"] == "0"
    assert meta["finish_reason"] == {"type": "length", "length": 5}
    assert [entry[1] for entry in meta["output_token_logprobs"]] == answer["output_ids"]
    assert all(entry[0] <= 0 and entry[2] is None for entry in meta["output_token_logprobs"])
    routed = np.frombuffer(base64.b64decode(meta["routed_experts"]), dtype=np.int32)
    assert routed.reshape(3 + 5 - 1, 2, 2).max() < 4


def test_log_probs_are_the_trainers_within_bf16(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        return (await client.post("/generate", json=body([7, 8, 9], new=20, return_routed_experts=True))).json()

    answer = run(engine, scenario)
    ids = torch.tensor([[7, 8, 9, *answer["output_ids"]]])
    routed = np.frombuffer(base64.b64decode(answer["meta_info"]["routed_experts"]), dtype=np.int32).reshape(1, 22, 2, 2)
    with torch.no_grad():
        logits = TinyMoE(CONFIG, seed=1)(ids[:, :-1], routed_experts=torch.from_numpy(routed.copy())).logits
    mine = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[0, 2:, 0]
    theirs = torch.tensor([entry[0] for entry in answer["meta_info"]["output_token_logprobs"]])
    assert (mine - theirs).abs().max() < 0.1


def test_a_stop_id_ends_the_reply_and_stays_in_it(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        free = (await client.post("/generate", json=body([7, 8, 9], new=12))).json()
        stopping = body([7, 8, 9], new=12)
        stopping["sampling_params"]["stop_token_ids"] = [free["output_ids"][4]]
        return free, (await client.post("/generate", json=stopping)).json()

    free, stopped = run(engine, scenario)
    first = free["output_ids"].index(free["output_ids"][4])
    assert stopped["output_ids"] == free["output_ids"][: first + 1]
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": free["output_ids"][4]}


def test_list_valued_batches_answer_in_order(engine: InferenceEngine) -> None:
    prompts = [[7, 8, 9], [10, 11], [12] * 20, [13], [14], [15]]

    async def scenario(client: httpx.AsyncClient) -> Any:
        params = [{"max_new_tokens": 3 + place, "sampling_seed": place} for place in range(len(prompts))]
        together = {"input_ids": prompts, "sampling_params": params, "rid": "b", "return_logprob": True}
        return (await client.post("/generate", json=together)).json()

    answers = run(engine, scenario)
    assert [a["meta_info"]["prompt_tokens"] for a in answers] == [len(p) for p in prompts]
    assert [len(a["output_ids"]) for a in answers] == [3, 4, 5, 6, 7, 8]
    assert [a["meta_info"]["id"] for a in answers] == [f"b_{place}" for place in range(len(prompts))]


def test_the_same_seed_samples_the_same_reply_and_another_seed_another(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        replies = []
        for seed in (5, 5, 6):
            engine.flush_cache()
            replies.append((await client.post("/generate", json=body([7, 8], new=16, seed=seed))).json()["output_ids"])
        return replies

    first, second, third = run(engine, scenario)
    assert first == second != third


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"{", 400, "no JSON"),
        (b"[]", 400, "expected one JSON object"),
        (b"[" * 100_000, 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"{}", 400, "input_ids"),
        (b'{"input_ids": []}', 400, "input_ids"),
        (b'{"input_ids": [[]]}', 400, "empty"),
        (b'{"input_ids": ["1"]}', 400, "integers"),
        (b'{"input_ids": [1.5]}', 400, "integers"),
        (b'{"input_ids": [true]}', 400, "integers"),
        (b'{"input_ids": [512]}', 400, "ids run from 0 to 511"),
        (b'{"input_ids": [-1]}', 400, "ids run from 0 to 511"),
        (json.dumps({"input_ids": [1] * 1024}).encode(), 400, "takes up to 1023"),
        (b'{"input_ids": [1], "stream": true}', 400, "stream"),
        (b'{"input_ids": [1], "rid": 3}', 400, "rid"),
        (b'{"input_ids": [[1], [2]], "rid": ["x", "x"]}', 400, "already in use"),
        (b'{"input_ids": [[1], [2]], "rid": ["x"]}', 400, "1 entries for 2 prompts"),
        (b'{"input_ids": [1], "sampling_params": 3}', 400, "sampling_params"),
        (b'{"input_ids": [1], "sampling_params": {"temperature": "hot"}}', 400, "temperature"),
        (b'{"input_ids": [1], "sampling_params": {"temperature": NaN}}', 400, "temperature"),
        (b'{"input_ids": [1], "sampling_params": {"max_new_tokens": -1}}', 400, "max_new_tokens"),
        (b'{"input_ids": [1], "sampling_params": {"top_p": 0}}', 400, "top_p"),
        (b'{"input_ids": [1], "sampling_params": {"stop": ["x"]}}', 400, "stop"),
        (b'{"input_ids": [1], "sampling_params": {"top_k": 5}}', 400, "top_k"),
        (b'{"input_ids": [1], "return_logprob": "yes"}', 400, "return_logprob"),
    ],
)
def test_malformed_input_is_refused_and_the_loop_lives(
    engine: InferenceEngine, content: bytes, status: int, words: str
) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        refused = await client.post("/generate", content=content)
        return refused, (await client.get("/health_generate")).status_code

    refused, health = run(engine, scenario)
    assert refused.status_code == status and words in refused.json()["message"]
    assert health == 200


def test_unknown_paths_and_methods(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        return (await client.get("/nowhere")).status_code, (await client.get("/generate")).status_code

    assert run(engine, scenario) == (404, 405)


def test_abort_answers_with_what_there_is(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        running = [
            asyncio.create_task(client.post("/generate", json=body([9], new=LONG, rid=f"r{i}"))) for i in range(6)
        ]
        await until(lambda: engine.load() == (4, 2))
        await client.post("/abort_request", json={"rid": "r1"})
        first = (await running[1]).json()
        await client.post("/abort_request", json={"abort_all": True})
        rest = [(await task).json() for task in running if task is not running[1]]
        return first, rest

    first, rest = run(engine, scenario)
    assert first["meta_info"]["finish_reason"]["type"] == "abort"
    assert len(first["output_ids"]) == len(first["meta_info"]["output_token_logprobs"]) < LONG
    assert {answer["meta_info"]["finish_reason"]["type"] for answer in rest} == {"abort"}
    assert engine.load() == (0, 0)


def test_abort_needs_to_know_what(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        return [(await client.post("/abort_request", json=b)).status_code for b in ({}, {"rid": ""}, {"rid": "gone"})]

    assert run(engine, scenario) == [400, 400, 200]


def test_no_request_spans_two_weight_versions(engine: InferenceEngine, tmp_path: Path) -> None:
    new = TinyMoE(CONFIG, seed=2)
    save_weights(tmp_path / "model.safetensors", new.state_dict(), CONFIG)

    async def scenario(client: httpx.AsyncClient) -> Any:
        before = asyncio.create_task(client.post("/generate", json=body([9], new=LONG, rid="before")))
        await until(lambda: engine.load()[0] == 1)
        update = {"model_path": str(tmp_path), "weight_version": "1", "flush_cache": True}
        updating = asyncio.create_task(client.post("/update_weights_from_disk", json=update))
        await until(lambda: bool(engine._updates))
        after = asyncio.create_task(client.post("/generate", json=body([9], new=4, rid="after")))
        await until(lambda: engine.load()[1] == 1)
        assert not updating.done() and engine.weight_version == "0"
        return [(await task).json() for task in (before, updating, after)]

    before, updated, after = run(engine, scenario)
    assert before["meta_info"]["weight_version"] == "0" and len(before["output_ids"]) == LONG
    assert updated["success"] is True
    assert after["meta_info"]["weight_version"] == "1"
    with torch.no_grad():
        log_probs = new(torch.tensor([[9]])).logits[0, -1].log_softmax(-1)
    first = after["meta_info"]["output_token_logprobs"][0]
    assert first[0] == pytest.approx(float(log_probs[first[1]]), abs=0.05)


def test_update_can_abort_what_runs(engine: InferenceEngine, tmp_path: Path) -> None:
    save_weights(tmp_path / "model.safetensors", TinyMoE(CONFIG, seed=2).state_dict(), CONFIG)

    async def scenario(client: httpx.AsyncClient) -> Any:
        running = asyncio.create_task(client.post("/generate", json=body([9], new=1000)))
        await until(lambda: engine.load()[0] == 1)
        update = {"model_path": str(tmp_path), "weight_version": "9", "abort_all_requests": True}
        updated = (await client.post("/update_weights_from_disk", json=update)).json()
        return updated, (await running).json(), (await client.get("/model_info")).json()

    updated, aborted, info = run(engine, scenario)
    assert updated["success"] and info["weight_version"] == "9"
    assert aborted["meta_info"]["finish_reason"]["type"] == "abort" and aborted["meta_info"]["weight_version"] == "0"


def test_weights_that_do_not_fit_change_nothing(engine: InferenceEngine, tmp_path: Path) -> None:
    wider = TinyMoEConfig(**{**CONFIG.__dict__, "expert_size": 24})
    save_weights(tmp_path / "model.safetensors", TinyMoE(wider).state_dict(), wider)
    (tmp_path / "junk.safetensors").write_bytes(b"junk")

    async def scenario(client: httpx.AsyncClient) -> Any:
        answers = []
        for path in (tmp_path, tmp_path / "junk.safetensors", tmp_path / "absent", 3):
            answers.append(await client.post("/update_weights_from_disk", json={"model_path": str(path)}))
        answers.append(await client.post("/update_weights_from_disk", json={"model_path": 3}))
        return answers, (await client.post("/generate", json=body([9]))).json()

    answers, reply = run(engine, scenario)
    assert [answer.status_code for answer in answers] == [400] * 5
    assert "moe.gate_up" in answers[0].json()["message"]
    assert reply["meta_info"]["weight_version"] == "0"


def test_pause_aborts_and_holds_new_requests_until_continue(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        running = asyncio.create_task(client.post("/generate", json=body([9], new=LONG)))
        await until(lambda: engine.load()[0] == 1)
        await client.post("/pause_generation", json={})
        aborted = (await running).json()
        held = asyncio.create_task(client.post("/generate", json=body([9], new=3)))
        await until(lambda: engine.load() == (0, 1))
        flushed = (await client.post("/flush_cache")).status_code
        health = (await client.get("/health_generate")).status_code
        await client.post("/continue_generation", json={})
        return aborted, (await held).json(), flushed, health

    aborted, held, flushed, health = run(engine, scenario)
    assert aborted["meta_info"]["finish_reason"]["type"] == "abort"
    assert len(held["output_ids"]) == 3 and (flushed, health) == (200, 200)


def test_paused_in_place_requests_refuse_new_weights(engine: InferenceEngine, tmp_path: Path) -> None:
    save_weights(tmp_path / "model.safetensors", TinyMoE(CONFIG, seed=2).state_dict(), CONFIG)

    async def scenario(client: httpx.AsyncClient) -> Any:
        running = asyncio.create_task(client.post("/generate", json=body([9], new=LONG)))
        await until(lambda: engine.load()[0] == 1)
        await client.post("/pause_generation", json={"mode": "in_place"})
        refused = await client.post("/update_weights_from_disk", json={"model_path": str(tmp_path)})
        flushed = await client.post("/flush_cache")
        await client.post("/continue_generation", json={})
        return refused, flushed, (await running).json()

    refused, flushed, reply = run(engine, scenario)
    assert (refused.status_code, flushed.status_code) == (400, 400)
    assert len(reply["output_ids"]) == LONG and reply["meta_info"]["weight_version"] == "0"


def test_a_continued_prompt_is_served_from_the_cache(engine: InferenceEngine) -> None:
    async def scenario(client: httpx.AsyncClient) -> Any:
        first = (await client.post("/generate", json=body([7, 8, 9], new=6, return_routed_experts=True))).json()
        longer = [7, 8, 9, *first["output_ids"], 20, 21]
        return first, (await client.post("/generate", json=body(longer, new=4, return_routed_experts=True))).json()

    first, second = run(engine, scenario)
    assert second["meta_info"]["cached_tokens"] == 3 + 6 - 1
    rows = [
        np.frombuffer(base64.b64decode(a["meta_info"]["routed_experts"]), np.int32).reshape(-1, 2, 2)
        for a in (first, second)
    ]
    assert (rows[0] == rows[1][: len(rows[0])]).all()


def test_a_client_that_goes_away_ends_its_request(engine: InferenceEngine) -> None:
    async def scenario() -> None:
        app = create_app(engine)
        messages = [{"type": "http.request", "body": json.dumps(body([9], new=1000)).encode(), "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await until(lambda: engine.load()[0] == 1)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(f"nobody is left to answer: {message}")

        await app({"type": "http", "method": "POST", "path": "/generate"}, receive, send)
        await until(lambda: engine.load() == (0, 0))

    asyncio.run(scenario())


def test_a_dead_loop_fails_what_waits_and_says_so(engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise ValueError("decoder broke")

    monkeypatch.setattr(engine._decoder, "prefill", explode)
    monkeypatch.setattr("threading.excepthook", lambda _: None)

    async def scenario(client: httpx.AsyncClient) -> Any:
        failed = await client.post("/generate", json=body([9]))
        await until(lambda: not engine.alive)
        return failed, await client.get("/health"), await client.post("/generate", json=body([9]))

    failed, health, later = run(engine, scenario)
    assert (failed.status_code, health.status_code, later.status_code) == (500, 503, 500)
    assert "decoder broke" in failed.json()["message"]
    with pytest.raises(EngineBroken):
        engine.submit([GenerateRequest("x", (1,), SamplingParams(max_new_tokens=1))])


def test_samples_follow_the_distribution_and_the_nucleus() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    marks = [(place + 0.5) / 1000 for place in range(1000)]

    def shares(params: SamplingParams) -> list[float]:
        tokens, _ = sample(logits.expand(1000, -1), [params] * 1000, marks)
        return [tokens.count(token) / 1000 for token in range(4)]

    assert shares(SamplingParams(1)) == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.002)
    assert shares(SamplingParams(1, top_p=0.7)) == pytest.approx([0.625, 0.375, 0, 0], abs=0.002)
    assert shares(SamplingParams(1, temperature=0)) == [1, 0, 0, 0]
    tokens, log_probs = sample(logits, [SamplingParams(1, temperature=0.5)], [0.9999])
    assert log_probs[0] == pytest.approx(float((logits / 0.5).log_softmax(-1)[0, tokens[0]]), abs=1e-6)


def test_the_command_prints_its_port_and_serves(tmp_path: Path) -> None:
    save_weights(tmp_path / "model.safetensors", TinyMoE(CONFIG, seed=1).state_dict(), CONFIG)
    argv = [sys.executable, "-m", "t1cli.embedded.server", "--checkpoint", str(tmp_path), "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            place = json.loads(process.stdout.readline())
            url = f"http://{place['host']}:{place['port']}"
            deadline = time.monotonic() + 120
            while True:
                try:
                    assert httpx.get(f"{url}/health_generate", trust_env=False).status_code == 200
                    break
                except httpx.ConnectError:
                    assert time.monotonic() < deadline
        finally:
            process.terminate()
        process.wait(timeout=120)


def test_who_asks_before_the_server_runs_waits_for_it_and_is_not_refused() -> None:
    """The port is told when the socket is there, which is before the server accepts."""
    with listen("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname(), timeout=60) as asking:
        assert asking.getpeername() == sock.getsockname()
