"""Chats of family `t1-tiny` for the session endpoint: a task, commands and what they answer, only ever appended to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from t1cli.embedded.template import TinyChatTemplate
from t1cli.terminal.harness.chat.message import Message, Tool
from t1cli.terminal.harness.chat.reply import ParsedReply


class TinyRenderer:
    """The session's Renderer. What comes before the first reply is the task, what comes later an observation."""

    is_append_only = True
    remark = ""

    def __init__(self, template: TinyChatTemplate | None = None) -> None:
        self._template = template or TinyChatTemplate()

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The id that ends a reply."""
        return self._template.stop_ids

    def whole(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """A whole chat; tools are left out, the model knows none."""
        replies = [index for index, message in enumerate(messages) if message.role == "assistant"]
        first = replies[0] if replies else len(messages)
        ids = self._template.render_task(_joined(messages[:first]))
        for start, end in pairwise([*replies, len(messages)]):
            reply = self._template.render_reply(messages[start].content)
            ids = (*ids, *reply, *self.after(reply, messages[start + 1 : end]))
        return ids

    def after(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> tuple[int, ...]:
        """What follows a reply: its end where it was cut, then the messages as one observation."""
        end = () if sampled_ids and sampled_ids[-1] in self.stop_ids else self.stop_ids
        return (*end, *self._template.render_observation(_joined(messages)))

    def read(self, text: str, tools: Sequence[Tool]) -> ParsedReply:
        """The command as content."""
        return ParsedReply(text)

    def count_tokens(self, text: str) -> int:
        """Ids that `text` takes inside a message."""
        return self._template.count_tokens(text)

    def decode(self, sampled_ids: Sequence[int]) -> str:
        """Text of a reply without the id that ended it."""
        return self._template.decode(tuple(sampled_ids))


def _joined(messages: Sequence[Message]) -> str:
    return "\n".join(message.content for message in messages)
