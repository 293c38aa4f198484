"""Rendered text as pieces: control tokens by their id, everything between them as plain text.

A text that comes from outside (an instruction, an observation, a tool's description) can never become a control
token, even when it spells one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from t1cli.terminal.harness.chat.message import Message, Tool


@dataclass(frozen=True)
class Control:
    """One control token by its name, such as `<|im_end|>`."""

    name: str


Pieces = tuple[str | Control, ...]


class Tokenizer(Protocol):
    """Text and ids of one model."""

    @property
    def controls(self) -> Mapping[str, int]:
        """Control tokens by name. No text ever encodes to one of them."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of plain text."""
        ...

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of ids, control tokens by their names, bytes that are no UTF-8 as U+FFFD."""
        ...


_MARK = re.compile(r"x([0-9a-f]{16})x(\d+)x")


class MissingControl(Exception):
    """A rendering uses a control token that the tokenizer does not have."""


def encode_pieces(pieces: Pieces, tokenizer: Tokenizer) -> list[int]:
    """Ids of pieces; neighbouring texts are encoded as one. Raises MissingControl."""
    ids: list[int] = []
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if piece.name not in tokenizer.controls:
            raise MissingControl(piece.name)
        ids += tokenizer.encode(text) if text else []
        ids.append(tokenizer.controls[piece.name])
        text = ""
    return ids + (tokenizer.encode(text) if text else [])


def text_of(pieces: Pieces) -> str:
    """The pieces as a template would have written them."""
    return "".join(piece if isinstance(piece, str) else piece.name for piece in pieces)


class Shield:
    """Hides control names in outside text while a template renders it, and finds the template's own ones after."""

    def __init__(self, controls: Mapping[str, int]) -> None:
        self._control = _any_of(frozenset(controls))
        # Random, so that no outside text can spell it; letters only, so that no template escapes or trims it.
        self._secret = secrets.token_hex(8)
        self._hidden: list[str] = []

    def message(self, message: Message) -> Message:
        """The message with control names hidden in everything that it says."""
        calls = tuple(
            replace(call, name=self.text(call.name), arguments=self.text(call.arguments)) for call in message.tool_calls
        )
        reasoning = None if message.reasoning is None else self.text(message.reasoning)
        return replace(message, content=self.text(message.content), reasoning=reasoning, tool_calls=calls)

    def tool(self, tool: Tool) -> Any:
        """The tool with control names hidden in every string, keys included."""
        return self._deep(tool)

    def text(self, text: str) -> str:
        """A text with every control name hidden."""
        return text if self._control is None else self._control.sub(self._hide, text)

    def pieces(self, rendered: str) -> Pieces:
        """A rendering cut at its own control tokens, hidden names back in place as plain text."""
        if self._control is None:
            return (rendered,) if rendered else ()
        found: list[str | Control] = []
        end = 0
        for match in self._control.finditer(rendered):
            found += [self._shown(rendered[end : match.start()]), Control(match.group())]
            end = match.end()
        found.append(self._shown(rendered[end:]))
        return tuple(piece for piece in found if piece)

    def _hide(self, match: re.Match[str]) -> str:
        self._hidden.append(match.group())
        return f"x{self._secret}x{len(self._hidden) - 1}x"

    def _shown(self, text: str) -> str:
        return _MARK.sub(self._show, text) if self._hidden else text

    def _show(self, match: re.Match[str]) -> str:
        return self._hidden[int(match[2])] if match[1] == self._secret else match.group()

    def _deep(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._deep(key): self._deep(item) for key, item in value.items()}
        return [self._deep(item) for item in value] if isinstance(value, (list, tuple)) else value


@lru_cache(maxsize=8)
def _any_of(names: frozenset[str]) -> re.Pattern[str] | None:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if names else None
