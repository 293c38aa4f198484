"""One chat request, whatever wire it came over, and how a session says no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from t1cli.terminal.harness.chat.message import Message, Tool

TURN_LIMIT: Final = "turn_limit_exceeded"
CONTEXT_LENGTH: Final = "context_length_exceeded"
"""Codes of refusals that end a trial at one of its budgets; the second one is OpenAI's."""


@dataclass(frozen=True)
class ChatRequest:
    """What a harness asks for."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_tokens: int | None = None
    """Limit of the reply; the session's own limit when it is lower."""
    model: str = ""
    is_streamed: bool = False
    wants_usage: bool = False
    """Whether a stream ends with the number of tokens."""
    wants_ids: bool = False
    """Whether the reply carries the ids of prompt and reply."""
    wants_log_probs: bool = False
    ignored: tuple[str, ...] = ()
    """Settings of the request that the session overrides, by name."""


class ChatRefusal(Exception):
    """A request that is not answered; `code` is what programs read."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param


def invalid(message: str, param: str) -> ChatRefusal:
    """A request that no repetition will make right."""
    return ChatRefusal(400, "invalid_value", message, param=param)
