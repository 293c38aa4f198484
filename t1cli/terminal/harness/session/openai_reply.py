"""A Completion as OpenAI's chat completion writes it, whole or as a stream of events, and errors in its shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from t1cli.terminal.harness.session.chat_request import ChatRequest
from t1cli.terminal.harness.session.session import Completion


def chat_completion(request: ChatRequest, completion: Completion, *, head: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request that is not streamed. `head`: `id`, `created` and `model`."""
    reply = completion.reply
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if not reply.tool_calls:
        message["content"] = reply.content
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = tool_calls(completion)
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason(completion),
        "logprobs": _log_probs(request, completion),
    }
    if request.wants_ids:
        choice["token_ids"] = list(completion.generation.sampled_ids)
    answer = {**head, "object": "chat.completion", "choices": [choice], "usage": usage(completion)}
    if request.wants_ids:
        answer["prompt_token_ids"] = list(completion.prompt_ids)
    return answer


def events(request: ChatRequest, completion: Completion, *, head: dict[str, Any]) -> Iterator[str]:
    """The same as server-sent events. The reply is sampled as a whole first, so the events come in one go."""
    reply = completion.reply
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": reply.reasoning}] if reply.reasoning else []
    deltas += [{"content": reply.content}] if reply.content else []
    deltas += [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate(tool_calls(completion))]
    for delta in deltas:
        yield _event(head, [{"index": 0, "delta": delta, "finish_reason": None}])
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": finish_reason(completion)}
    if request.wants_ids:
        last["token_ids"] = list(completion.generation.sampled_ids)
    if request.wants_log_probs:
        last["logprobs"] = _log_probs(request, completion)
    yield _event(head, [last])
    if request.wants_usage:
        yield _event({**head, "usage": usage(completion)}, [])
    yield "data: [DONE]\n\n"


def error_body(status: int, code: str, message: str, param: str | None = None) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def tool_calls(completion: Completion) -> list[dict[str, Any]]:
    """The reply's calls as the wire writes them."""
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in completion.reply.tool_calls
    ]


def finish_reason(completion: Completion) -> str:
    """`length`, `tool_calls` or `stop`."""
    if completion.is_cut:
        return "length"
    return "tool_calls" if completion.reply.tool_calls else "stop"


def usage(completion: Completion) -> dict[str, Any]:
    """Tokens of prompt and reply, and how many of the prompt's were there before."""
    prompt, sampled = len(completion.prompt_ids), len(completion.generation.sampled_ids)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": completion.kept_tokens},
    }


def _log_probs(request: ChatRequest, completion: Completion) -> dict[str, Any] | None:
    if not request.wants_log_probs:
        return None
    generation = completion.generation
    pairs = zip(generation.sampled_ids, generation.log_probs, strict=True)
    content: list[dict[str, Any]] = [
        {"token": f"token_id:{i}", "logprob": value, "bytes": None, "top_logprobs": []} for i, value in pairs
    ]
    return {"content": content, "refusal": None}


def _event(head: dict[str, Any], choices: list[dict[str, Any]]) -> str:
    content = {**head, "object": "chat.completion.chunk", "choices": choices}
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"
