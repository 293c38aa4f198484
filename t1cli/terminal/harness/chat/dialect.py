"""How a family frames messages after a reply: the append-only part of its chat template.

Each is checked against the checkpoint's own template before it is used (`probe`). Sources: the chat templates that
Qwen and Z.ai publish with their checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from t1cli.terminal.harness.chat.message import Message, Tool
from t1cli.terminal.harness.chat.pieces import Control, Pieces
from t1cli.terminal.harness.chat.reply import ParsedReply, parse_reply
from t1cli.terminal.harness.chat.tool_calls import CallFormat


class Dialect(Protocol):
    """One family's framing."""

    @property
    def name(self) -> str: ...

    @property
    def stops(self) -> tuple[str, ...]:
        """Control tokens that end a reply, the usual one first."""
        ...

    def after_reply(self, closed_by: str | None, messages: Sequence[Message]) -> Pieces:
        """What follows a sampled reply: whatever its end still lacks, then the messages.

        `closed_by` is the control token that ended the reply; None when it was cut at its limit.
        """
        ...

    def parse(self, text: str, tools: tuple[Tool, ...]) -> ParsedReply:
        """A reply's text from its think block on, without its stop token. Never raises."""
        ...


@dataclass(frozen=True)
class ChatML:
    """Qwen3, Qwen3-Next, Qwen3.5: `<|im_start|>role … <|im_end|>` and a newline; tool results inside a user turn."""

    name: str
    calls: CallFormat
    trims: bool = False
    """Whether the template strips white space around contents (Qwen3.5)."""
    stops: tuple[str, ...] = ("<|im_end|>", "<|endoftext|>")

    def after_reply(self, closed_by: str | None, messages: Sequence[Message]) -> Pieces:
        pieces: list[str | Control] = [] if closed_by == "<|im_end|>" else [Control("<|im_end|>")]
        pieces.append("\n")
        before = "assistant"
        for index, message in enumerate(messages):
            after = messages[index + 1].role if index + 1 < len(messages) else ""
            pieces += self._message(message, opens=before != "tool", closes=after != "tool")
            before = message.role
        return tuple(pieces)

    def _message(self, message: Message, *, opens: bool, closes: bool) -> Pieces:
        content = message.content.strip() if self.trims else message.content
        if message.role != "tool":
            return (Control("<|im_start|>"), f"{message.role}\n{content}", Control("<|im_end|>"), "\n")
        start: Pieces = (Control("<|im_start|>"), "user") if opens else ()
        end: Pieces = (Control("<|im_end|>"), "\n") if closes else ()
        return (*start, f"\n<tool_response>\n{content}\n</tool_response>", *end)

    def parse(self, text: str, tools: tuple[Tool, ...]) -> ParsedReply:
        return parse_reply(text, self.calls, tools)


@dataclass(frozen=True)
class Glm:
    """GLM-4.5 to GLM-5: a message is its role's token and its content; the next role's token ends a reply."""

    name: str
    calls: CallFormat
    newlines: bool
    """GLM-4.5 and 4.6 put a newline after a role's token and around tool results, GLM-4.7 and 5 do not."""
    no_think: str = ""
    """What GLM-4.5 and 4.6 add to a user's content when the model shall not think."""
    stops: tuple[str, ...] = ("<|observation|>", "<|user|>", "<|endoftext|>")

    def after_reply(self, closed_by: str | None, messages: Sequence[Message]) -> Pieces:
        pieces: list[str | Control] = []
        opened = closed_by
        for message in messages:
            role = Control("<|observation|>" if message.role == "tool" else f"<|{message.role}|>")
            # The token that ended the reply is the opening of the message that it announced; results share theirs.
            if role.name != opened:
                pieces.append(role)
            opened = role.name if message.role == "tool" else None
            pieces.append(self._content(message))
        return tuple(pieces)

    def _content(self, message: Message) -> str:
        line = "\n" if self.newlines else ""
        if message.role == "tool":
            return f"{line}<tool_response>{line}{message.content}{line}</tool_response>"
        ending = self.no_think if message.role == "user" and not message.content.endswith(self.no_think) else ""
        return f"{line}{message.content}{ending}"

    def parse(self, text: str, tools: tuple[Tool, ...]) -> ParsedReply:
        return parse_reply(text, self.calls, tools)
