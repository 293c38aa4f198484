"""`logprob_start_len` as SGLang answers it: shape, values, and that scoring disturbs nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import torch

from t1cli.embedded.decoder import DecoderSettings
from t1cli.embedded.inference import InferenceEngine
from t1cli.embedded.model import TinyMoE
from t1cli.embedded.server import create_app
from tests.unit.embedded.conftest import tiny_config

CONFIG = tiny_config(512)
CONTEXT = 64
PROMPT = [7, 8, 9, 300, 12, 5, 6, 7]


@pytest.fixture(scope="module")
def engine() -> Iterator[InferenceEngine]:
    """In fp32, so that its values are the trainer's to the last few bits."""
    settings = DecoderSettings(slots=4, max_context=CONTEXT, dtype=torch.float32)
    with InferenceEngine(CONFIG, TinyMoE(CONFIG, seed=1).state_dict(), settings) as engine:
        yield engine


def ask(engine: InferenceEngine, *bodies: dict[str, Any], together: bool = False) -> list[Any]:
    """The answers to these bodies, one after the other or at once; a refusal as its message."""

    async def main() -> list[Any]:
        transport = httpx.ASGITransport(app=create_app(engine))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=120) as client:
            calls: list[Callable[[], Any]] = [lambda b=b: client.post("/generate", json=b) for b in bodies]
            sent = await asyncio.gather(*(call() for call in calls)) if together else [await call() for call in calls]
        return [answer.json() if answer.status_code == 200 else answer.json()["message"] for answer in sent]

    engine.flush_cache()
    return asyncio.run(main())


def body(prompt: list[int], *, new: int = 0, start: int | None = 0, **more: Any) -> dict[str, Any]:
    params = {"max_new_tokens": new, "temperature": 1.0, "sampling_seed": 3}
    asked = {} if start is None else {"logprob_start_len": start}
    return {"input_ids": prompt, "sampling_params": params, "return_logprob": True, **asked, **more}


def entries(answer: Any) -> list[Any]:
    return list(answer["meta_info"]["input_token_logprobs"])


def trainer_log_probs(prompt: list[int]) -> list[float]:
    with torch.no_grad():
        logits = TinyMoE(CONFIG, seed=1)(torch.tensor([prompt[:-1]])).logits
    return logits.log_softmax(-1).gather(-1, torch.tensor(prompt[1:])[None, :, None])[0, :, 0].tolist()


def test_a_prompt_is_scored_without_a_reply(engine: InferenceEngine) -> None:
    (answer,) = ask(engine, body(PROMPT))
    assert answer["output_ids"] == [] and answer["meta_info"]["output_token_logprobs"] == []
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 0}
    assert [entry[1:] for entry in entries(answer)] == [[token, None] for token in PROMPT]
    assert entries(answer)[0][0] is None, "nothing comes before the first token"
    assert [entry[0] for entry in entries(answer)[1:]] == pytest.approx(trainer_log_probs(PROMPT), abs=1e-4)


@pytest.mark.parametrize("start", [1, 5, len(PROMPT) - 1])
def test_a_start_within_the_prompt_leaves_out_what_comes_before(engine: InferenceEngine, start: int) -> None:
    whole, tail = ask(engine, body(PROMPT), body(PROMPT, start=start))
    assert entries(tail)[0] == [None, PROMPT[start], None]
    assert [entry[0] for entry in entries(tail)[1:]] == pytest.approx([e[0] for e in entries(whole)[start + 1 :]])


@pytest.mark.parametrize(
    ("start", "new", "expected"),
    [(None, 2, [[None, PROMPT[-1], None]]), (-1, 2, [[None, PROMPT[-1], None]]), (-1, 0, [])],
)
def test_nobody_asked_for_the_prompt(engine: InferenceEngine, start: int | None, new: int, expected: list[Any]) -> None:
    (answer,) = ask(engine, body(PROMPT, start=start, new=new))
    assert entries(answer) == expected and len(answer["output_ids"]) == new


def test_what_is_cached_is_computed_again_where_it_is_scored(engine: InferenceEngine) -> None:
    cold, _, warm = ask(engine, body(PROMPT), body(PROMPT, start=None, new=4), body(PROMPT, start=4))
    assert cold["meta_info"]["cached_tokens"] == 0 and warm["meta_info"]["cached_tokens"] == 4
    assert [e[0] for e in entries(warm)[1:]] == pytest.approx([e[0] for e in entries(cold)[5:]], abs=1e-5)


def test_scoring_beside_a_reply_changes_neither(engine: InferenceEngine) -> None:
    (alone,) = ask(engine, body(PROMPT, new=6, start=None))
    (scored,) = ask(engine, body(PROMPT, new=6))
    assert scored["output_ids"] == alone["output_ids"]
    assert [e[0] for e in entries(scored)[1:]] == pytest.approx(trainer_log_probs(PROMPT), abs=1e-4)
    together = ask(engine, body(PROMPT, new=6, start=None), body([3, 4, 5]), body(PROMPT, new=6), together=True)
    assert together[0]["output_ids"] == together[2]["output_ids"] == alone["output_ids"]
    assert [e[0] for e in entries(together[1])[1:]] == pytest.approx(trainer_log_probs([3, 4, 5]), abs=1e-4)


def test_its_values_are_the_sampled_ones_when_a_reply_is_scored_again(engine: InferenceEngine) -> None:
    (reply,) = ask(engine, body(PROMPT, new=6, start=None))
    said = [entry[0] for entry in reply["meta_info"]["output_token_logprobs"]]
    (again,) = ask(engine, body([*PROMPT, *reply["output_ids"]]))
    assert [entry[0] for entry in entries(again)[len(PROMPT) :]] == pytest.approx(said, abs=1e-4)


def test_a_full_context_can_be_scored_and_its_routes_are_those_before_its_last_token(engine: InferenceEngine) -> None:
    (answer,) = ask(engine, body([1] * CONTEXT, return_routed_experts=True))
    assert len(entries(answer)) == CONTEXT
    routes = answer["meta_info"]["routed_experts"]
    (tail,) = ask(engine, body([1] * (CONTEXT - 1), new=1, start=None, return_routed_experts=True))
    assert routes == tail["meta_info"]["routed_experts"]
    (refused,) = ask(engine, body([1] * (CONTEXT + 1)))
    assert f"takes up to {CONTEXT}" in refused


@pytest.mark.parametrize("start", [len(PROMPT), -2, 1.5, True, "0"])
def test_a_start_outside_the_prompt_is_refused(engine: InferenceEngine, start: Any) -> None:
    (refused,) = ask(engine, body(PROMPT, start=start))
    assert "`logprob_start_len` must be -1 or from 0 to 7" in refused


def test_each_prompt_of_a_batch_has_its_own_start(engine: InferenceEngine) -> None:
    (answers,) = ask(engine, {**body(PROMPT), "input_ids": [PROMPT, [3, 4, 5]], "logprob_start_len": [6, -1]})
    assert [len(entries(answer)) for answer in answers] == [2, 0]
