"""Chat messages as every family's template knows them, whatever wire they came over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class ToolCall:
    """One call that a reply makes."""

    name: str
    arguments: str
    """JSON text of one object; any other text is what the model wrote in its place."""
    id: str = ""

    @property
    def parsed(self) -> Mapping[str, Any] | str:
        """The arguments as an object, or the text when it holds none."""
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return self.arguments
        return value if isinstance(value, dict) else self.arguments


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Role
    content: str = ""
    reasoning: str | None = None
    """What an assistant thought before its content; None when the message does not say."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""

    def for_template(self) -> dict[str, Any]:
        """The message as the keys that chat templates read."""
        fields: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning is not None:
            fields["reasoning_content"] = self.reasoning
        if self.tool_calls:
            fields["tool_calls"] = [
                {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": call.parsed}}
                for call in self.tool_calls
            ]
        if self.tool_call_id:
            fields["tool_call_id"] = self.tool_call_id
        if self.name:
            fields["name"] = self.name
        return fields


Tool = Mapping[str, Any]
"""One tool as OpenAI's wire describes it: `type` and `function` with `name`, `description` and `parameters`."""


def parameter_types(tools: tuple[Tool, ...], name: str) -> Mapping[str, Any]:
    """Parameter name to its JSON schema, of the tool with this name; {} when it is not declared."""
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and function.get("name") == name:
            parameters = function.get("parameters")
            properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
            return properties if isinstance(properties, Mapping) else {}
    return {}
