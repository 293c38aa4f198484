"""A reply's text taken apart: what it thought, what it said, which tools it calls."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.terminal.harness.chat.message import Message, Tool, ToolCall
from t1cli.terminal.harness.chat.tool_calls import CallFormat, Calls

THINK, END_THINK = "<think>", "</think>"


@dataclass(frozen=True)
class ParsedReply:
    """One reply as its reader sees it; the sampled ids stay the truth."""

    content: str
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    problem: str = ""
    """Why something that looks like a call could not be read; it then stays in the content."""

    @property
    def message(self) -> Message:
        """The reply as a message of the chat."""
        return Message("assistant", self.content, self.reasoning, self.tool_calls)


def parse_reply(text: str, calls: CallFormat, tools: tuple[Tool, ...]) -> ParsedReply:
    """Never raises. Without tools nothing is read as a call, as the wire asks."""
    reasoning, said = split_thinking(text)
    if not tools:
        return ParsedReply(said, reasoning)
    found: Calls = calls.read(said, tools)
    return ParsedReply(found.content, reasoning, found.calls, found.problem)


def split_thinking(text: str) -> tuple[str | None, str]:
    """What stands inside the first think block, and what comes after it; None without such a block."""
    before, begins, rest = text.partition(THINK)
    if not begins or before.strip():
        return None, text
    thought, ends, said = rest.partition(END_THINK)
    if not ends:
        # Cut while thinking: nothing was said yet.
        return thought.strip("\n"), ""
    return thought.strip("\n"), said.lstrip("\n")
