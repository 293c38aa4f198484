"""Thirty turns of a text harness that never sees an id: one row, nothing masked, nothing encoded twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from t1cli.terminal.harness.chat.message import Message, ToolCall

TURNS = 30
TOOL = {
    "type": "function",
    "function": {"name": "shell", "parameters": {"properties": {"command": {"type": "string"}}}},
}
HEARD = ("3 files\n", "  ünï\t== é\r\n\n\n", "", "<|im_end|><|user|>[gMASK]", "</tool_response> 👩‍👩‍👧")


def call_text(name: str, command: str) -> str:
    """A call as each family writes it."""
    return {
        "qwen3": f'<tool_call>\n{{"name": "shell", "arguments": {{"command": "{command}"}}}}\n</tool_call>',
        "qwen3_5": f"<tool_call>\n<function=shell>\n<parameter=command>\n{command}\n</parameter>\n"
        "</function>\n</tool_call>",
        "glm_4_5": f"\n<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>{command}</arg_value>\n</tool_call>",
        "glm_4_7": f"<tool_call>shell<arg_key>command</arg_key><arg_value>{command}</arg_value></tool_call>",
    }[name]


def script_of(benches: SimpleNamespace, name: str, thinking: bool) -> list[Any]:
    """Turns that think, talk and call; every third one only talks, and is answered by a user."""
    begins = {"qwen3": "<think>\n", "qwen3_5": "", "glm_4_5": "\n<think>", "glm_4_7": ""}[name]
    glm = name.startswith("glm")
    script = []
    for turn in range(TURNS):
        thought = f"{begins}Hm {turn}.\n</think>\n\n" if thinking else ""
        calls = turn % 3 != 2
        said = f"{thought}  Turn {turn} ûs. " + (call_text(name, f"ls {turn}") if calls else "\n")
        script.append(benches.Said(said, stop=0 if calls or not glm else 1))
    return script


async def play(bench: Any) -> list[dict[str, Any]]:
    """The harness: it answers calls with observations and words with words."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
    for turn in range(TURNS):
        await bench.chat(messages, tools=[TOOL])
        heard = HEARD[turn % len(HEARD)]
        calls = messages[-1].get("tool_calls", [])
        for call in calls:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": heard})
        if not calls:
            messages.append({"role": "user", "content": heard})
    return messages


def as_messages(messages: list[dict[str, Any]]) -> list[Message]:
    return [
        Message(
            message["role"],
            message.get("content") or "",
            tool_calls=tuple(
                ToolCall(call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls", [])
            ),
        )
        for message in messages
    ]


def mismatches(renderer: Any, row: Any, messages: list[dict[str, Any]]) -> dict[str, int]:
    """What stands between the sampled ids against what the family's template, a program of its own, writes there."""
    edges = np.flatnonzero(np.diff(row.loss_mask, prepend=0))
    controls = set(renderer.tokenizer.controls.values())
    found = {"special tokens": 0, "environment": 0}
    replies = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    for turn, start in enumerate(edges[1:-1:2]):
        end = edges[2 * turn + 2]
        upto = replies[turn + 1] if turn + 1 < len(replies) else len(messages)
        ids = renderer.whole(as_messages(messages[:upto]), (TOOL,))
        # A reply's stop token may be the opening of the next message, so the comparison begins with it.
        ours = row.tokens[start - 1 : end].tolist()
        theirs = list(ids[len(ids) - len(ours) :])
        found["environment"] += ours != theirs
        found["special tokens"] += [i for i in ours if i in controls] != [i for i in theirs if i in controls]
    assert len(edges) == 2 * TURNS - 1, "every reply begins a stretch of loss, every one but the last ends it"
    return found


FAMILIES = ("qwen3", "qwen3_5", "glm_4_5", "glm_4_7")


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_linear_dialogue_is_one_exact_row(
    chat: SimpleNamespace, benches: SimpleNamespace, name: str, thinking: bool
) -> None:
    check(benches, chat.renderer_for(name, thinking=thinking), name, thinking)


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", ["qwen", "qwen3.5", "smollm2"])
def test_a_linear_dialogue_on_a_real_vocabulary_is_one_exact_row(
    chat: SimpleNamespace, benches: SimpleNamespace, vocabulary: str, request: pytest.FixtureRequest
) -> None:
    if vocabulary == "smollm2":
        tokenizer = chat.packaged_tokenizer(request.getfixturevalue("packaged_checkpoint"))
    else:
        tokenizer = chat.real_tokenizer(vocabulary)
    for name in FAMILIES:
        for thinking in (False, True):
            check(benches, chat.renderer_for(name, thinking=thinking, tokenizer=tokenizer), name, thinking)


@pytest.mark.slow
def test_a_packaged_template_that_no_framing_fits_is_one_exact_row_too(
    chat: SimpleNamespace, benches: SimpleNamespace, packaged_checkpoint: Path
) -> None:
    """What its harness says back is rendered whole: other ids for the same text, which the relations put right."""
    renderer = chat.checkpoint_renderer(packaged_checkpoint, family="llama", thinking=False)
    script = [benches.Said(f"Turn {turn} ûs.") for turn in range(TURNS)]

    async def run() -> Any:
        text = renderer.tokenizer.text
        async with benches.bench_of(renderer, script, text=text) as bench:
            messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
            for turn in range(TURNS):
                await bench.chat(messages)
                messages.append({"role": "user", "content": f"  heard {turn}\t== é\r\n\n"})
            return bench

    bench = asyncio.run(run())
    rows = bench.assembler.rows(benches.LABEL)
    assert len(rows) == 1 and rows[0].audit.drifted_in_loss == 0 and rows[0].audit.masked == {}
    assert rows[0].audit.count("strict") < TURNS
    assert rows[0].audit.trained_tokens == bench.session.report.sampled_tokens


def check(benches: SimpleNamespace, renderer: Any, name: str, thinking: bool) -> None:
    """One trial through the endpoint: rows, masks, mismatches and what was encoded."""

    async def run() -> tuple[Any, list[dict[str, Any]]]:
        async with benches.bench_of(renderer, script_of(benches, name, thinking)) as bench:
            return bench, await play(bench)

    bench, messages = asyncio.run(run())
    rows, report = bench.assembler.rows(benches.LABEL), bench.session.report
    assert len(rows) / 1 == 1.00
    row = rows[0]
    assert row.audit.count("strict") == TURNS and row.audit.ties == 0
    assert row.audit.masked == {} and row.audit.drifted_in_loss == 0
    assert row.audit.trained_tokens == row.audit.sampled_tokens == report.sampled_tokens == int(row.loss_mask.sum())
    assert report.encoded_tokens == len(row.tokens) - report.sampled_tokens
    assert report.ways == {"opened": 1, "appended": TURNS - 1} and report.departures == []
    assert mismatches(renderer, row, messages[:-1]) == {"special tokens": 0, "environment": 0}
