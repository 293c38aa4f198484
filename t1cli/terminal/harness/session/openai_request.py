"""OpenAI's chat completion request as a ChatRequest: what cannot be honoured exactly is refused, not dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from t1cli.terminal.harness.chat.message import ROLES, Message, ToolCall
from t1cli.terminal.harness.session.chat_request import ChatRequest, invalid

_ROLE_NAMES: Mapping[str, Any] = {**{role: role for role in ROLES}, "developer": "system"}
# The policy is sampled as the campaign says, whatever a harness asks for: log-probs belong to that distribution.
_OVERRIDDEN = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias")
# A stop text would cut sampled tokens off; the others ask for a reply that the policy did not give.
_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "stop": (None, [], ""),
    "n": (None, 1),
    "response_format": (None, {"type": "text"}),
    "tool_choice": (None, "auto"),
    "functions": (None, []),
    "prediction": (None,),
    "audio": (None,),
}


def chat_request(body: Mapping[str, Any]) -> ChatRequest:
    """The request of a body. Raises ChatRefusal."""
    _check_encodable(body)
    for name, harmless in _REFUSED.items():
        if body.get(name) not in harmless:
            raise invalid(f"`{name}` is not supported here", name)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("`messages` must be a list of at least one message", "messages")
    parsed = tuple(_message(message, f"messages[{index}]") for index, message in enumerate(messages))
    if parsed[-1].role == "assistant":
        raise invalid("the last message is the assistant's: there is nothing to reply to", "messages")
    options = body.get("stream_options")
    return ChatRequest(
        messages=parsed,
        tools=_tools(body.get("tools")),
        max_tokens=_limit(body),
        model=str(body.get("model") or ""),
        is_streamed=body.get("stream") is True,
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
        wants_ids=body.get("return_token_ids") is True,
        wants_log_probs=body.get("logprobs") is True,
        ignored=tuple(name for name in _OVERRIDDEN if body.get(name) is not None),
    )


def _check_encodable(body: Mapping[str, Any]) -> None:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        # JSON can spell half a character; no tokenizer can encode one.
        raise invalid(f"a text holds a lone surrogate, {error.object[error.start]!r}", "messages") from error


def _message(value: Any, where: str) -> Message:
    if not isinstance(value, dict):
        raise invalid("a message must be an object", where)
    role = _ROLE_NAMES.get(str(value.get("role")))
    if role is None:
        raise invalid(f"role {value.get('role')!r}, expected one of {', '.join(_ROLE_NAMES)}", f"{where}.role")
    reasoning = value.get("reasoning_content", value.get("reasoning"))
    calls = value.get("tool_calls") or []
    if not isinstance(calls, list):
        raise invalid("`tool_calls` must be a list", f"{where}.tool_calls")
    return Message(
        role=role,
        content=_content(value.get("content"), f"{where}.content"),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        tool_calls=tuple(_call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls)),
        tool_call_id=str(value.get("tool_call_id") or ""),
        name=str(value.get("name") or ""),
    )


def _content(value: Any, where: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise invalid("content must be a text or a list of parts", where)
    texts = []
    for index, part in enumerate(value):
        text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "input_text") else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise invalid(f"a part of type {kind!r}, expected text: nothing else is supported", f"{where}[{index}]")
        texts.append(text)
    return "".join(texts)


def _call(value: Any, where: str) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str):
        raise invalid("a tool call must name a function", where)
    arguments = function.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(name, text, str(value.get("id") or ""))


def _tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise invalid("`tools` must be a list", "tools")
    for index, tool in enumerate(value):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise invalid("a tool must be a function with a name", f"tools[{index}]")
    return tuple(value)


def _limit(body: Mapping[str, Any]) -> int | None:
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    wanted = body.get(name)
    if wanted is None:
        return None
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise invalid(f"`{name}` must be a whole number above 0, found {wanted!r}", name)
    return wanted
