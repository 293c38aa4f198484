"""How the built-in agent talks to a chat model: one shell command per reply, as a tool call or as a fenced block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from t1cli.terminal.harness.chat.conversation import Appending, Rendering
from t1cli.terminal.harness.chat.message import Message, Tool
from t1cli.terminal.harness.chat.renderer import Renderer
from t1cli.terminal.harness.chat.reply import ParsedReply
from t1cli.terminal.harness.chat_template import Conversation, Reply
from t1cli.terminal.trajectory.text_space import HasText, TextSpace

SHELL: Final[Tool] = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Runs one command line in bash and returns its output and, when it is not 0, its exit code.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command line."}},
            "required": ["command"],
        },
    },
}

_COMMON = (
    "You solve a task in a Linux shell. Every command starts in the directory /work, in a new shell: what a command "
    "sets or changes in its own shell is gone after it, files stay. Nobody can answer questions."
)
BY_TOOL = f"{_COMMON} Call `shell` with one command line per reply. When the task is done, reply without a call."
BY_FENCE = (
    f"{_COMMON} Each reply runs one command line: write it in one fenced block that begins with ```bash and ends with "
    "```. When the task is done, reply without a block."
)
_FENCE = re.compile(r"```(?:bash|sh|shell)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class CommandTemplate:
    """The harness's ChatTemplate over a renderer."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self._by_tool = renderer.is_append_only

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a reply; the sampled one stays part of it."""
        return self.renderer.stop_ids

    @property
    def text(self) -> TextSpace | None:
        """What single ids say; None when the tokenizer cannot tell."""
        tokenizer = getattr(self.renderer, "tokenizer", None)
        return tokenizer.text if isinstance(tokenizer, HasText) else None

    def begin(self, instruction: str) -> Conversation:
        """A chat about a task. Raises CannotRender."""
        asked = (Message("system", BY_TOOL if self._by_tool else BY_FENCE), Message("user", instruction))
        if not self._by_tool:
            return Rendering(self.renderer, asked, ())
        return Appending(self.renderer.whole(asked, (SHELL,)), self._after_reply, self._after_request)

    def count_tokens(self, text: str) -> int:
        """Ids that `text` takes inside an observation."""
        return self.renderer.count_tokens(text)

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of a reply without the id that ended it."""
        return self.renderer.decode(ids)

    def words(self, text: str) -> str:
        """What a decoded reply says, without what it thought and the calls it makes. Never raises."""
        return self.renderer.read(text, (SHELL,) if self._by_tool else ()).content

    def parse_reply(self, text: str) -> Reply:
        """What a decoded reply asks for. Never raises."""
        if not self._by_tool:
            return _by_fence(self.renderer.read(text, ()).content)
        return _by_tool(self.renderer.read(text, (SHELL,)))

    def _after_reply(self, sampled_ids: tuple[int, ...], observation: str) -> tuple[int, ...]:
        return self.renderer.after(sampled_ids, (self._heard(sampled_ids, observation),))

    def _after_request(self, sampled_ids: tuple[int, ...], observation: str, request: str) -> tuple[int, ...]:
        return self.renderer.after(sampled_ids, (self._heard(sampled_ids, observation), Message("user", request)))

    def _heard(self, sampled_ids: tuple[int, ...], observation: str) -> Message:
        reply = self.renderer.read(self.renderer.decode(sampled_ids), (SHELL,))
        if reply.tool_calls or reply.problem:
            return Message("tool", observation, name="shell")
        return Message("user", observation)


def _by_tool(reply: ParsedReply) -> Reply:
    if reply.problem:
        return Reply("malformed", why=reply.problem)
    if not reply.tool_calls:
        return Reply("done")
    if len(reply.tool_calls) > 1:
        return Reply("malformed", why=f"{len(reply.tool_calls)} calls in one reply, expected one")
    call = reply.tool_calls[0]
    arguments = call.parsed
    command = arguments.get("command") if isinstance(arguments, Mapping) else None
    if call.name != "shell" or not isinstance(command, str):
        return Reply("malformed", why=f"call of `{call.name}`, expected `shell` with a text under `command`")
    return _runnable(command)


def _by_fence(content: str) -> Reply:
    blocks = _FENCE.findall(content)
    if not blocks:
        return Reply("malformed", why="a fenced block is not closed") if "```" in content else Reply("done")
    if len(blocks) > 1:
        return Reply("malformed", why=f"{len(blocks)} fenced blocks in one reply, expected one")
    return _runnable(blocks[0])


def _runnable(command: str) -> Reply:
    if not command.strip():
        return Reply("malformed", why="the command is empty")
    if "\0" in command:
        return Reply("malformed", why="a command cannot contain a NUL byte")
    if "\ufffd" in command:
        return Reply("malformed", why="the command is not valid UTF-8")
    return Reply("command", command=command)
