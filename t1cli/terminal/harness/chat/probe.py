"""Whether a framing writes what the checkpoint's own template writes after a reply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from t1cli.terminal.harness.chat.checkpoint_template import CannotRender, CheckpointTemplate
from t1cli.terminal.harness.chat.dialect import Dialect
from t1cli.terminal.harness.chat.message import Message, Tool, ToolCall
from t1cli.terminal.harness.chat.pieces import text_of

_TOOL: Tool = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    },
}
_CALL = ToolCall("look", '{"at": "the sea"}', "call_0")
# White space at the ends shows whether a template trims contents.
_ASKED = (Message("system", "Be brief."), Message("user", " Well? \n"))
_SAID = Message("assistant", "Said.")
_CALLED = Message("assistant", "Looking.", tool_calls=(_CALL,))
_RESULT = Message("tool", " blue \n", tool_call_id="call_0", name="look")
_CASES: tuple[tuple[str, Message, tuple[Message, ...]], ...] = (
    ("a user's message", _SAID, (Message("user", " More \n"),)),
    ("a tool's result", _CALLED, (_RESULT,)),
    ("two tools' results", _CALLED, (_RESULT, _RESULT)),
    ("a result and a user's message", _CALLED, (_RESULT, Message("user", "Go on"))),
)


class NoOpening(Exception):
    """The template does not open a reply after the chat, so nothing can be sampled from it."""


@dataclass(frozen=True)
class Difference:
    """Where a framing and the template part."""

    case: str
    expected: str
    """The end of what the template writes."""
    found: str
    """What the framing writes."""

    def __str__(self) -> str:
        return f"after a reply, {self.case}: the template writes …{self.expected!r}, the framing {self.found!r}"


def reply_opening(template: CheckpointTemplate) -> str:
    """What the template writes to open a reply. Raises NoOpening and CannotRender."""
    asked = (Message("user", "Well?"),)
    without, opened = template.render(asked, reply=False), template.render(asked, reply=True)
    if not opened.startswith(without) or opened == without:
        raise NoOpening(f"the template {template.where} opens no reply: it ends in {opened[-40:]!r}")
    return opened.removeprefix(without)


def differences(dialect: Dialect, template: CheckpointTemplate) -> Iterator[Difference]:
    """Every case in which a framing does not write what the template writes. Raises NoOpening and CannotRender."""
    opening = reply_opening(template)
    for case, reply, messages in _CASES:
        found = text_of(dialect.after_reply(None, messages)) + opening
        rendered = _rendered(template, reply, messages)
        if not rendered.endswith(found) or not _ends_in(dialect, rendered.removesuffix(found), reply):
            yield Difference(case, rendered[-len(found) - 20 :], found)


def _rendered(template: CheckpointTemplate, reply: Message, messages: tuple[Message, ...]) -> str:
    try:
        return template.render((*_ASKED, reply, *messages), (_TOOL,), reply=True)
    except CannotRender as refusal:
        return f"[{refusal}]"


def _ends_in(dialect: Dialect, history: str, reply: Message) -> bool:
    """Whether the history ends exactly with the reply: its words, or a call that the framing reads back."""
    if not reply.tool_calls:
        return history.endswith(reply.content)
    start = history.rfind(reply.content)
    parsed = dialect.parse(history[start:], (_TOOL,))
    same_calls = [(call.name, call.parsed) for call in parsed.tool_calls] == [(_CALL.name, _CALL.parsed)]
    return parsed.content == reply.content and same_calls
