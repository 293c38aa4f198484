"""Anthropic's messages API over the same sessions: its request as a ChatRequest, a Completion as its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t1cli.terminal.harness.session.chat_request import ChatRequest, invalid
from t1cli.terminal.harness.session.openai_request import chat_request
from t1cli.terminal.harness.session.session import Completion

_OVERRIDDEN = ("temperature", "top_p", "top_k")
_STOP_REASONS = {True: "max_tokens", False: "end_turn"}


def messages_request(body: Mapping[str, Any]) -> ChatRequest:
    """The request of a body. Raises ChatRefusal."""
    if body.get("stop_sequences"):
        raise invalid("`stop_sequences` is not supported here", "stop_sequences")
    if not isinstance(body.get("messages"), list):
        raise invalid("`messages` must be a list of at least one message", "messages")
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise invalid("`tools` must be a list", "tools")
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    turns = [part for index, turn in enumerate(body["messages"]) for part in _turn(turn, f"messages[{index}]")]
    choice = body.get("tool_choice")
    return chat_request(
        {
            "model": body.get("model"),
            "messages": [*system, *turns],
            "tools": [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)] or None,
            "tool_choice": None if choice in (None, {"type": "auto"}) else choice,
            "max_tokens": body.get("max_tokens"),
            "stream": body.get("stream"),
            **{name: body.get(name) for name in _OVERRIDDEN},
        }
    )


def message_answer(request: ChatRequest, completion: Completion, *, head: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request that is not streamed. `head`: `id` and `model`."""
    sampled = len(completion.generation.sampled_ids)
    return {
        **_start(completion, head),
        "content": _blocks(completion),
        **_end(completion),
        "usage": _usage(completion, sampled),
    }


def message_events(request: ChatRequest, completion: Completion, *, head: dict[str, Any]) -> Iterator[str]:
    """The same as server-sent events, all at once when the reply is complete."""
    start = {**_start(completion, head), "content": [], "stop_reason": None, "stop_sequence": None}
    yield _event("message_start", message={**start, "usage": _usage(completion, 0)})
    for index, block in enumerate(_blocks(completion)):
        empty, delta = _as_delta(block)
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    sampled = len(completion.generation.sampled_ids)
    yield _event("message_delta", delta=_end(completion), usage={"output_tokens": sampled})
    yield _event("message_stop")


def error_answer(status: int, code: str, message: str) -> dict[str, Any]:
    """An error in Anthropic's shape."""
    kinds = {400: "invalid_request_error", 404: "not_found_error", 413: "request_too_large"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": f"{code}: {message}"}}


def _turn(value: Any, where: str) -> list[dict[str, Any]]:
    """One message as OpenAI's wire has it; tool results become messages of their own, before the user's words."""
    if not isinstance(value, dict):
        raise invalid("a message must be an object", where)
    content = value.get("content")
    if not isinstance(content, list):
        return [value]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for index, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in ("text", "tool_use", "tool_result", "thinking"):
            raise invalid(f"a block of type {kind!r} is not supported", f"{where}.content[{index}]")
        kinds.setdefault(str(kind), []).append(block)
    results = [
        {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
        for block in kinds.get("tool_result", [])
    ]
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input", {})}}
        for block in kinds.get("tool_use", [])
    ]
    words = {"role": value.get("role"), "content": kinds.get("text", []), "tool_calls": calls}
    return [*results, *([words] if kinds.get("text") or calls or not results else [])]


def _tool(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise invalid("a tool must have a name", where)
    function = {"name": value["name"], "description": value.get("description", "")}
    return {"type": "function", "function": {**function, "parameters": value.get("input_schema", {})}}


def _start(completion: Completion, head: dict[str, Any]) -> dict[str, Any]:
    return {"id": head["id"], "type": "message", "role": "assistant", "model": head["model"]}


def _end(completion: Completion) -> dict[str, Any]:
    calls = bool(completion.reply.tool_calls) and not completion.is_cut
    return {"stop_reason": "tool_use" if calls else _STOP_REASONS[completion.is_cut], "stop_sequence": None}


def _usage(completion: Completion, sampled: int) -> dict[str, int]:
    prompt, kept = len(completion.prompt_ids), completion.kept_tokens
    return {"input_tokens": prompt - kept, "cache_read_input_tokens": kept, "output_tokens": sampled}


def _blocks(completion: Completion) -> Sequence[dict[str, Any]]:
    reply = completion.reply
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.content}] if reply.content else []
    for call in reply.tool_calls:
        arguments = call.parsed if isinstance(call.parsed, Mapping) else {}
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": dict(arguments)})
    return blocks


def _as_delta(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    written = json.dumps(block["input"], ensure_ascii=False)
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": written}


def _event(kind: str, **content: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **content}, ensure_ascii=False)}\n\n"
