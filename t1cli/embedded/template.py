"""The chat template of family `t1-tiny`: three roles, append-only, so that no turn ever retokenises an earlier one.

    <|task|>instruction<|assistant|>command<|end|><|observation|>output<|assistant|>command<|end|> … <|end|>

A reply is one shell command closed by `<|end|>`; an empty reply says that the task is finished.
"""

from __future__ import annotations

from t1cli.embedded.tokenizer import Tokenizer, tokenizer
from t1cli.terminal.harness.chat.conversation import Appending
from t1cli.terminal.harness.chat.renderer import Renderer
from t1cli.terminal.harness.chat_template import Reply


class TinyChatTemplate:
    """The harness's ChatTemplate: a prompt is `render_task`, then per turn the sampled ids and `render_observation`."""

    def __init__(self, words: Tokenizer | None = None) -> None:
        self.tokenizer = words or tokenizer()
        self._task = self.tokenizer.special("<|task|>")
        self._assistant = self.tokenizer.special("<|assistant|>")
        self._observation = self.tokenizer.special("<|observation|>")
        self._end = self.tokenizer.special("<|end|>")

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The sampled id that closes a reply; it belongs to the reply."""
        return (self._end,)

    @property
    def renderer(self) -> Renderer:
        """The same framing for messages of the session endpoint."""
        from t1cli.embedded.chat_renderer import TinyRenderer

        return TinyRenderer(self)

    def begin(self, instruction: str) -> Appending:
        """A chat about a task, ready for the first reply."""
        return Appending(
            self.render_task(instruction),
            lambda _, text: self.render_observation(text),
            lambda _, text, request: self.render_request(text, request),
        )

    def render_task(self, instruction: str) -> tuple[int, ...]:
        """The first prompt, ready for the first reply."""
        return (self._task, *self.tokenizer.encode(instruction), self._assistant)

    def render_observation(self, text: str) -> tuple[int, ...]:
        """What follows a closed reply, ready for the next one."""
        return (self._observation, *self.tokenizer.encode(text), self._assistant)

    def render_request(self, text: str, request: str) -> tuple[int, ...]:
        """An observation and, in a second one, what somebody asks for: there is no role of a user."""
        return (*self.render_observation(text)[:-1], *self.render_observation(request))

    def render_reply(self, command: str) -> tuple[int, ...]:
        """The reply that a policy would sample for a command; `""` says that the task is finished."""
        return (*self.tokenizer.encode(command), self._end)

    def count_tokens(self, text: str) -> int:
        """Number of ids that `text` takes inside an observation."""
        return len(self.tokenizer.encode(text))

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of sampled ids without special tokens; bytes that are no UTF-8 become U+FFFD."""
        return self.tokenizer.decode(ids)

    def words(self, text: str) -> str:
        """The reply as it stands: nothing in it is thinking or a call."""
        return text

    def parse_reply(self, text: str) -> Reply:
        """A command as it stands, `done` for a blank reply, malformed when no shell could be given it."""
        if not text.strip():
            return Reply("done")
        if "\0" in text:
            return Reply("malformed", why="a command cannot contain a NUL byte")
        if "\ufffd" in text:
            return Reply("malformed", why="the command is not valid UTF-8")
        return Reply("command", command=text)
