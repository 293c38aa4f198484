"""Anthropic's messages API: the same session, the same exact row, its own shapes."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

CALL = 'Looking.\n<tool_call>\n{"name": "look", "arguments": {"at": "é"}}\n</tool_call>'
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"properties": {"at": {"type": "string"}}}}
FIRST = {"model": "m", "max_tokens": 100, "system": "Be brief.", "messages": [{"role": "user", "content": "Go."}]}


def play(chat: SimpleNamespace, benches: SimpleNamespace, bodies: Any, script: tuple[Any, ...]) -> tuple[Any, Any]:
    """Post what `bodies(answers so far)` gives until it gives None; all answers and the bench."""

    async def run() -> tuple[list[Any], Any]:
        async with benches.bench_of(chat.renderer_for("qwen3"), script) as bench:
            answers: list[Any] = []
            while (body := bodies(answers)) is not None:
                answers.append(await bench.http.post("/v1/messages", headers={"x-api-key": bench.key}, json=body))
            return answers, bench

    return asyncio.run(run())


def test_calls_and_results_append_to_one_exact_row(chat: SimpleNamespace, benches: SimpleNamespace) -> None:
    def bodies(answers: list[Any]) -> Any:
        if not answers:
            return {**FIRST, "tools": [TOOL], "temperature": 0.3}
        if len(answers) == 2:
            return None
        said = answers[0].json()["content"]
        result = {"type": "tool_result", "tool_use_id": said[1]["id"], "content": [{"type": "text", "text": "blue"}]}
        heard = [result, {"type": "text", "text": "And?"}]
        turns = [{"role": "assistant", "content": said}, {"role": "user", "content": heard}]
        return {**FIRST, "tools": [TOOL], "messages": [*FIRST["messages"], *turns]}

    (first, second), bench = play(chat, benches, bodies, (CALL, "Blue."))
    told = first.json()
    assert [block["type"] for block in told["content"]] == ["text", "tool_use"] and told["stop_reason"] == "tool_use"
    assert told["content"][1]["input"] == {"at": "é"} and told["type"] == "message"
    assert (
        second.json()["content"] == [{"type": "text", "text": "Blue."}] and second.json()["stop_reason"] == "end_turn"
    )
    report = bench.session.report
    assert report.ways == {"opened": 1, "appended": 1} and report.overridden == {"temperature": 1}
    (row,) = bench.assembler.rows(benches.LABEL)
    text = bench.model.renderer.tokenizer.decode(tuple(row.tokens.tolist()))
    assert "<tool_response>\nblue\n</tool_response><|im_end|>\n<|im_start|>user\nAnd?<|im_end|>" in text
    usage = second.json()["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == len(bench.model.prompts[1])


def test_a_stream_says_what_the_whole_answer_says(chat: SimpleNamespace, benches: SimpleNamespace) -> None:
    def bodies(answers: list[Any]) -> Any:
        return {**FIRST, "tools": [TOOL], "stream": bool(answers)} if len(answers) < 2 else None

    (whole, stream), _ = play(chat, benches, bodies, (CALL, CALL))
    assert stream.headers["content-type"] == "text/event-stream"
    events = [json.loads(part.split("data: ", 1)[1]) for part in stream.text.split("\n\n") if part]
    assert [event["type"] for event in (events[0], events[-1])] == ["message_start", "message_stop"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    content = whole.json()["content"]
    assert deltas[0]["text"] == content[0]["text"] and json.loads(deltas[1]["partial_json"]) == content[1]["input"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens"] == whole.json()["usage"]["output_tokens"]


@pytest.mark.parametrize(
    "change",
    [
        {"messages": None},
        {"messages": [3]},
        {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
        {"stop_sequences": ["x"]},
        {"tool_choice": {"type": "any"}},
        {"tools": [{}]},
        {"tools": 3},
        {"tools": {"name": "f"}},
    ],
    ids=str,
)
def test_refusals_have_anthropics_shape(chat: SimpleNamespace, benches: SimpleNamespace, change: Any) -> None:
    (answer,), bench = play(chat, benches, lambda answers: None if answers else {**FIRST, **change}, ())
    assert answer.status_code == 400 and bench.model.prompts == []
    assert answer.json()["type"] == "error" and answer.json()["error"]["type"] == "invalid_request_error"
