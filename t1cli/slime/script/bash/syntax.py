"""Bash source as a syntax tree; the only importer of tree-sitter."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


class Source:
    """One parsed file or command substitution, and where its first line stands."""

    def __init__(self, text: str, *, shown: str, first_line: int = 1) -> None:
        self.bytes = text.encode()
        self.shown = shown
        self.first_line = first_line
        self.root: Node = _parser().parse(self.bytes).root_node
        self._substitutions = dict(_substitutions(self.root))

    def text(self, start: int, end: int) -> str:
        """The source between two byte offsets."""
        return self.bytes[start:end].decode()

    def line(self, node: Node) -> int:
        """Line of a node in the file, from 1."""
        return self.first_line + node.start_point[0]

    def where(self, node: Node) -> str:
        """`file:line` of a node."""
        return f"{self.shown}:{self.line(node)}"

    def substitution_end(self, start: int) -> int | None:
        """Where the command substitution that starts at this byte ends."""
        return self._substitutions.get(start)


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _substitutions(root: Node) -> list[tuple[int, int]]:
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node.type == "command_substitution":
            found.append((node.start_byte, node.end_byte))
        waiting += node.children
    return found
