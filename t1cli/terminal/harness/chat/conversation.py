"""One agent's chat as the prompt of its next reply; it grows by what was sampled and by what was observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from t1cli.terminal.harness.chat.message import Message, Tool
from t1cli.terminal.harness.chat.renderer import Renderer


class Appending:
    """A chat whose every prompt is the ids before it plus new ones (token in, token out)."""

    def __init__(
        self, prompt_ids: tuple[int, ...], after_reply: Callable[[tuple[int, ...], str], Sequence[int]]
    ) -> None:
        self._prompt_ids = prompt_ids
        self._after_reply = after_reply

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt of the next reply."""
        return self._prompt_ids

    def observe(self, sampled_ids: tuple[int, ...], observation: str) -> None:
        """Go on after a reply: its ids as they were sampled, then the observation."""
        self._prompt_ids = (*self._prompt_ids, *sampled_ids, *self._after_reply(sampled_ids, observation))


class Rendering:
    """A chat that its template renders as a whole before each reply; rows are joined by what the ids still share."""

    def __init__(self, renderer: Renderer, messages: Sequence[Message], tools: Sequence[Tool]) -> None:
        self._renderer, self._tools = renderer, tools
        self._messages = list(messages)
        self._prompt_ids = renderer.whole(self._messages, tools)

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt of the next reply."""
        return self._prompt_ids

    def observe(self, sampled_ids: tuple[int, ...], observation: str) -> None:
        """Go on after a reply. Raises CannotRender."""
        reply = self._renderer.read(self._renderer.decode(sampled_ids), self._tools).message
        self._messages += [reply, Message("user", observation)]
        self._prompt_ids = self._renderer.whole(self._messages, self._tools)
