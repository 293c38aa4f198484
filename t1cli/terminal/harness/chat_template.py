"""The chat template that an agent loop talks through, and cutting text to a token budget.

Append-only templates: what is rendered later never changes ids that were already sent or sampled, so every prompt of
a trial is exactly the ids before it plus new ones (token in, token out). Models without one are rendered as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

CUT_MARKER = "\n[... cut ...]\n"


@dataclass(frozen=True)
class Reply:
    """What one model reply asks for: one shell command, the end of the trial, or nothing that can be read."""

    kind: Literal["command", "done", "malformed"]
    command: str = ""
    why: str = ""
    """What was wrong with a malformed reply; the policy sees it as its next observation."""


class Conversation(Protocol):
    """One trial's chat, as the prompt of its next reply."""

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """Everything before the next reply, up to and including the reply's opening."""
        ...

    def observe(self, sampled_ids: tuple[int, ...], observation: str) -> None:
        """Go on after a reply that ended in a stop id: its ids as sampled, the observation, the next opening."""
        ...

    def asking(self, request: str) -> tuple[int, ...]:
        """The prompt of a reply to a user's message after the last observation; the chat stays as it is."""
        ...


class ChatTemplate(Protocol):
    """Turns text into ids, and replies into commands."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a reply; the sampled one stays part of the reply."""
        ...

    def begin(self, instruction: str) -> Conversation:
        """A chat about a task, ready for the first reply."""
        ...

    def count_tokens(self, text: str) -> int:
        """Number of ids that `text` takes inside an observation."""
        ...

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of sampled ids, stop ids left out; invalid bytes replaced. For people and for parsing only."""
        ...

    def words(self, text: str) -> str:
        """What a decoded reply says, without what it thought and the calls it makes; never raises."""
        ...

    def parse_reply(self, text: str) -> Reply:
        """Reads one decoded reply; never raises."""
        ...


def cut_middle(text: str, *, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """`text`, or its head and tail around a marker so that it takes at most `max_tokens`; a tiny budget gives ''."""
    if len(text) <= 16 * max_tokens and count_tokens(text) <= max_tokens:
        return text
    low, high = 0, min(len(text), 16 * max_tokens)
    while low < high:
        kept_characters = (low + high + 1) // 2
        if count_tokens(_around_marker(text, kept_characters)) <= max_tokens:
            low = kept_characters
        else:
            high = kept_characters - 1
    cut = _around_marker(text, low)
    return cut if count_tokens(cut) <= max_tokens else ""


def _around_marker(text: str, kept_characters: int) -> str:
    tail_characters = kept_characters // 2
    tail = text[len(text) - tail_characters :]
    return text[: kept_characters - tail_characters] + CUT_MARKER + tail
