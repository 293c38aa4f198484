"""The three ways in which supported families write a tool call into a reply."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from t1cli.terminal.harness.chat.message import Tool, ToolCall, parameter_types

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_OPENING = "<tool_call>"


@dataclass(frozen=True)
class Calls:
    """What a reply says beside its calls, and the calls."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    problem: str = ""


class CallFormat(Protocol):
    """Reads calls out of a reply."""

    def read(self, text: str, tools: tuple[Tool, ...]) -> Calls: ...


class _Unreadable(Exception):
    """The text between the call's tags is no call."""


class _Tagged(ABC):
    """Calls inside `<tool_call>` tags; either all of a reply's calls can be read or none is handed on."""

    def read(self, text: str, tools: tuple[Tool, ...]) -> Calls:
        start = text.find(_OPENING)
        if start < 0:
            return Calls(text)
        bodies, beside = _CALL.findall(text, start), text[:start] + _CALL.sub("", text[start:])
        try:
            if _OPENING in beside:
                raise _Unreadable("a <tool_call> is not closed")
            calls = tuple(_encodable(self.call(body, tools)) for body in bodies)
        except _Unreadable as problem:
            return Calls(text, problem=str(problem))
        except RecursionError:
            return Calls(text, problem="the call's arguments are nested beyond reason")
        return Calls(beside.rstrip(), calls)

    @abstractmethod
    def call(self, body: str, tools: tuple[Tool, ...]) -> ToolCall:
        """The call between one pair of tags. Raises _Unreadable."""


class JsonCalls(_Tagged):
    """Qwen3: `{"name": …, "arguments": {…}}`."""

    def call(self, body: str, tools: tuple[Tool, ...]) -> ToolCall:
        try:
            value = json.loads(body, strict=False)
        except (ValueError, RecursionError) as error:
            raise _Unreadable(f"the call is no JSON: {error}") from error
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise _Unreadable('the call is no object with a text under "name"')
        arguments = value.get("arguments", {})
        if isinstance(arguments, str):  # a few checkpoints quote the object
            arguments = _object(arguments)
        if not isinstance(arguments, dict):
            raise _Unreadable('"arguments" is no object')
        return ToolCall(value["name"], json.dumps(arguments, ensure_ascii=False))


class ParameterCalls(_Tagged):
    """Qwen3.5: `<function=NAME>` with `<parameter=KEY>` values on lines of their own."""

    _FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*)</function>\s*", re.DOTALL)
    _PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)

    def call(self, body: str, tools: tuple[Tool, ...]) -> ToolCall:
        match = self._FUNCTION.fullmatch(body)
        if match is None:
            raise _Unreadable("the call is no <function=NAME> … </function>")
        name, inner = match[1].strip(), match[2]
        if self._PARAMETER.sub("", inner).strip():
            raise _Unreadable("text between the call's parameters")
        return _typed(name, self._PARAMETER.findall(inner), tools)


class KeyValueCalls(_Tagged):
    """GLM-4.5 to 5: the name, then `<arg_key>` and `<arg_value>` pairs."""

    _PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)

    def call(self, body: str, tools: tuple[Tool, ...]) -> ToolCall:
        start = body.find("<arg_key>")
        name = (body if start < 0 else body[:start]).strip()
        inner = "" if start < 0 else body[start:]
        if not name or "<" in name:
            raise _Unreadable("the call has no name")
        if self._PAIR.sub("", inner).strip():
            raise _Unreadable("text between the call's arguments")
        return _typed(name, [(key.strip(), value) for key, value in self._PAIR.findall(inner)], tools)


def _encodable(call: ToolCall) -> ToolCall:
    """JSON can spell half a character (`\\ud83d`): no shell takes one, no wire carries it and no tokenizer reads it."""
    try:
        (call.name + call.arguments).encode()
    except UnicodeEncodeError as error:
        raise _Unreadable(f"the call holds half a character, {error.object[error.start]!r}") from error
    return call


def _typed(name: str, pairs: list[tuple[str, str]], tools: tuple[Tool, ...]) -> ToolCall:
    """Written values as the types that the tool declares; a value that does not fit its type stays a text."""
    types = parameter_types(tools, name)
    arguments = {key: _value(value, types.get(key)) for key, value in pairs}
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


def _value(written: str, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind is None or kind == "string" or (isinstance(kind, list) and "string" in kind):
        return written
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f'"arguments" is no JSON: {error}') from error
