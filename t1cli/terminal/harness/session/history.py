"""What a session's engine saw and sampled, as a tree: which reply a request goes on from.

A request is compared message by message with what the session holds. An assistant's message is the reply that the
session gave when its words and its calls are the same; white space at its ends, what it thought, and the ids of calls
are not compared, since harnesses drop and rename them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from t1cli.terminal.harness.chat.message import Message, Tool
from t1cli.terminal.harness.chat.reply import split_thinking


@dataclass(frozen=True)
class Node:
    """The state of a chat after one reply."""

    parent: Node | None
    added_ids: tuple[int, ...]
    """What the prompt added to the parent's ids, the whole prompt when there is none."""
    sampled_ids: tuple[int, ...]

    def ids(self) -> tuple[int, ...]:
        """Every id of the chat so far."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return tuple(token for node in reversed(nodes) for part in (node.added_ids, node.sampled_ids) for token in part)


@dataclass(frozen=True)
class Found:
    """The longest history that a request begins with."""

    node: Node
    messages: int
    """How many of the request's messages it covers, its reply included."""
    is_tie: bool
    """Whether other replies said the same; the latest is taken."""


class History:
    """The nodes of one session by everything that was said before them."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, list[Node]] = {}

    def longest(self, links: Sequence[bytes]) -> Found | None:
        """The node that covers most of a request; `links` are those of the request's messages."""
        for count in range(len(links) - 1, 0, -1):
            nodes = self._nodes.get(links[count])
            if nodes:
                return Found(nodes[-1], count, len(nodes) > 1)
        return None

    def add(self, link: bytes, node: Node) -> None:
        """Keep a node under the link of its reply."""
        self._nodes.setdefault(link, []).append(node)

    def __len__(self) -> int:
        return sum(map(len, self._nodes.values()))


def links_of(messages: Sequence[Message], tools: Sequence[Tool]) -> list[bytes]:
    """One link before the messages and one after each: equal exactly when everything up to there is the same."""
    links = [_digest(b"", json.dumps(list(tools), sort_keys=True))]
    for message in messages:
        links.append(next_link(links[-1], message))
    return links


def next_link(link: bytes, message: Message) -> bytes:
    """The link after one more message."""
    content, calls = message.content, []
    if message.role == "assistant":
        content = split_thinking(content)[1].strip()
        calls = [[call.name, call.parsed] for call in message.tool_calls]
    return _digest(link, json.dumps([message.role, content, calls], sort_keys=True))


def _digest(link: bytes, text: str) -> bytes:
    return hashlib.blake2b(link + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
