"""Small questions about nodes of a syntax tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from t1cli.slime.script.bash.state import shown
from t1cli.slime.script.bash.syntax import Source
from t1cli.slime.script.bash.words import End

if TYPE_CHECKING:
    from tree_sitter import Node

SKIPPED: Final = frozenset({"comment", "heredoc_body", "heredoc_end", "file_redirect", "herestring_redirect"})
REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


def is_body(child: Node, item: Node) -> bool:
    closing = next((c for c in item.children if c.type == ")"), None)
    return closing is None or child.start_byte >= closing.end_byte


def parts(node: Node, keyword: str) -> tuple[list[Node], list[Node], list[Node]]:
    """Condition, body and further clauses of an `if` or `elif`."""
    conditions: list[Node] = []
    body: list[Node] = []
    others: list[Node] = []
    seen = False
    for child in node.children:
        if child.type == keyword:
            seen = True
        elif child.type in ("elif_clause", "else_clause"):
            others.append(child)
        elif child.is_named:
            (body if seen else conditions).append(child)
    return conditions, body, others


def assigns(node: Node) -> bool:
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.type == "variable_assignment":
            return True
        waiting += current.children
    return False


def adjacent(nodes: Sequence[Node]) -> list[tuple[Node, Node]]:
    """First and last node of every word: pieces without a gap between them belong together."""
    found: list[tuple[Node, Node]] = []
    for node in nodes:
        if node.type in SKIPPED or node.start_byte == node.end_byte:
            continue
        if found and found[-1][1].end_byte == node.start_byte:
            found[-1] = (found[-1][0], node)
        else:
            found.append((node, node))
    return found


def word(first: Node, last: Node, source: Source) -> tuple[str, End]:
    return span(first.start_byte, last.end_byte, source)


def span(start: int, stop: int, source: Source) -> tuple[str, End]:
    """The source between two bytes, and where the substitutions in it end, counted in its characters."""
    text = source.text(start, stop)

    def end(at: int) -> int | None:
        found = source.substitution_end(start + len(text[:at].encode()))
        return None if found is None or found > stop else len(source.text(start, found))

    return text, end


def first_text(node: Node, source: Source) -> str:
    name = node.child_by_field_name("name")
    return source.text(name.start_byte, name.end_byte) if name is not None else ""


def brief(words: Sequence[str]) -> str:
    text = shown(" ".join(words))
    return text if len(text) <= 60 else text[:57] + "…"
