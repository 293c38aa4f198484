"""One agent's chat as the prompt of its next reply; it grows by what was sampled and by what was observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from t1cli.terminal.harness.chat.message import Message, Tool
from t1cli.terminal.harness.chat.renderer import Renderer


class Appending:
    """A chat whose every prompt is the ids before it plus new ones (token in, token out)."""

    def __init__(
        self,
        prompt_ids: tuple[int, ...],
        after_reply: Callable[[tuple[int, ...], str], Sequence[int]],
        after_request: Callable[[tuple[int, ...], str, str], Sequence[int]],
    ) -> None:
        """What follows a reply's sampled ids: an observation, or an observation and a user's request."""
        self._prompt_ids = prompt_ids
        self._after_reply, self._after_request = after_reply, after_request
        self._last: tuple[tuple[int, ...], tuple[int, ...], str] | None = None
        """Prompt, sampled ids and observation of the last reply."""

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt of the next reply."""
        return self._prompt_ids

    def observe(self, sampled_ids: tuple[int, ...], observation: str) -> None:
        """Go on after a reply: its ids as they were sampled, then the observation."""
        self._last = (self._prompt_ids, sampled_ids, observation)
        self._prompt_ids = (*self._prompt_ids, *sampled_ids, *self._after_reply(sampled_ids, observation))

    def asking(self, request: str) -> tuple[int, ...]:
        """The prompt of a reply to a request after the last observation: the same ids up to the observation's end."""
        assert self._last is not None, "nothing was observed that a request could follow"
        prompt_ids, sampled_ids, observation = self._last
        return (*prompt_ids, *sampled_ids, *self._after_request(sampled_ids, observation, request))


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

    def asking(self, request: str) -> tuple[int, ...]:
        """The prompt of a reply to a request, which ends the last message. Raises CannotRender."""
        *before, heard = self._messages
        # Many templates refuse two messages of a user one after the other.
        asked = Message("user", f"{heard.content}\n\n{request}".lstrip())
        return self._renderer.whole([*before, asked], self._tools)
