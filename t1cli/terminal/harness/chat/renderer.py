"""Messages to ids and ids to replies: by appending where the family's framing is known, as a whole otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from t1cli.terminal.harness.chat.checkpoint_template import CheckpointTemplate
from t1cli.terminal.harness.chat.dialect import Dialect
from t1cli.terminal.harness.chat.message import Message, Tool
from t1cli.terminal.harness.chat.pieces import Pieces, Shield, Tokenizer, encode_pieces
from t1cli.terminal.harness.chat.reply import ParsedReply, split_thinking


class Renderer(Protocol):
    """One model's chats as ids."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a reply; the sampled one stays part of it."""
        ...

    @property
    def is_append_only(self) -> bool:
        """Whether `after` exists: what follows a reply without rendering what came before it."""
        ...

    @property
    def remark(self) -> str:
        """Why the renderer cannot append, for a log; empty when it can."""
        ...

    def whole(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """A whole chat up to the opening of the next reply. Raises CannotRender."""
        ...

    def after(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> tuple[int, ...]:
        """What follows the sampled ids of a reply: the messages and the opening of the next reply."""
        ...

    def read(self, text: str, tools: Sequence[Tool]) -> ParsedReply:
        """A decoded reply as its reader sees it. Never raises."""
        ...

    def count_tokens(self, text: str) -> int:
        """Ids that `text` takes inside a message."""
        ...

    def decode(self, sampled_ids: Sequence[int]) -> str:
        """Text of a reply without the id that ended it."""
        ...


@dataclass(frozen=True, kw_only=True)
class WholeRenderer:
    """The checkpoint's own template over the whole chat, each time; history may come out in other ids."""

    tokenizer: Tokenizer
    template: CheckpointTemplate
    stop_ids: tuple[int, ...]
    opening: str
    """Text that opens a reply."""
    remark: str = ""

    is_append_only = False

    def whole(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """A whole chat as ids. Raises CannotRender."""
        shield = Shield(self.tokenizer.controls)
        shielded = [shield.message(message) for message in messages]
        text = self.template.render(shielded, [shield.tool(tool) for tool in tools], reply=True)
        return tuple(encode_pieces(shield.pieces(text), self.tokenizer))

    def after(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> tuple[int, ...]:
        """Not known for this family."""
        raise NotImplementedError("this renderer does not append")

    def read(self, text: str, tools: Sequence[Tool]) -> ParsedReply:
        """Thinking taken apart; calls are not read, since nobody knows how this family writes them."""
        reasoning, said = split_thinking(self._from_think(text))
        return ParsedReply(said, reasoning)

    def count_tokens(self, text: str) -> int:
        """Ids of a text."""
        return len(self.tokenizer.encode(text))

    def decode(self, sampled_ids: Sequence[int]) -> str:
        """Text of a reply without the id that ended it."""
        ids = tuple(sampled_ids)
        return self.tokenizer.decode(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)

    def _from_think(self, text: str) -> str:
        """The reply from the think block that its opening began, if it did."""
        start = self.opening.find("<think>")
        return text if start < 0 else self.opening[start:] + text


@dataclass(frozen=True, kw_only=True)
class AppendOnlyRenderer(WholeRenderer):
    """A family's framing after each reply; the checkpoint's template only where a chat begins."""

    dialect: Dialect

    is_append_only = True

    def after(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> tuple[int, ...]:
        """What follows the sampled ids; nothing before them is looked at."""
        closed_by = self._stop_names.get(sampled_ids[-1]) if sampled_ids else None
        pieces = self.dialect.after_reply(closed_by, messages)
        return tuple(encode_pieces((*pieces, *self._opening_pieces), self.tokenizer))

    def read(self, text: str, tools: Sequence[Tool]) -> ParsedReply:
        """Thinking, words and calls as the family writes them."""
        return self.dialect.parse(self._from_think(text), tuple(tools))

    @cached_property
    def _stop_names(self) -> dict[int, str]:
        return {token: name for name, token in self.tokenizer.controls.items() if token in self.stop_ids}

    @cached_property
    def _opening_pieces(self) -> Pieces:
        return Shield(self.tokenizer.controls).pieces(self.opening)
