"""Tests of `[ … ]`, `[[ … ]]` and `(( … ))`: true, false, or not decidable without running something."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from typing import TYPE_CHECKING, Final

from t1cli.slime.script.bash.state import State, is_unknown, unknown_names

if TYPE_CHECKING:
    from tree_sitter import Node

    from t1cli.slime.script.bash.syntax import Source

Answer = bool | None
"""None: not decidable."""
ExpandText = Callable[["Node", "Source"], str]

_NUMERIC: Final[dict[str, Callable[[int, int], bool]]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_JOINS: Final = ("&&", "||", "-a", "-o")


class Conditions:
    """Answers tests of one script."""

    def __init__(self, state: State, expand: ExpandText) -> None:
        self._state = state
        self._expand = expand

    def test(self, node: Node, source: Source) -> Answer:
        """A `test_command` node, or an expression below it."""
        self._state.step()
        if node.type in ("test_command", "parenthesized_expression"):
            inner = list(node.named_children)
            return self.test(inner[0], source) if inner else False
        if node.type in ("negated_command", "unary_expression") and node.children and node.children[0].type == "!":
            return negated(self.test(node.children[-1], source))
        if node.type == "unary_expression":
            return self._unary(node, source)
        if node.type == "binary_expression":
            return self._binary(node, source)
        text = self._value(node, source)
        return None if is_unknown(text) else text != ""

    def _unary(self, node: Node, source: Source) -> Answer:
        operator = source.text(node.children[0].start_byte, node.children[0].end_byte)
        operand = self._value(node.children[-1], source)
        if operator in ("-z", "-n"):
            if is_unknown(operand):
                return None
            return (operand == "") == (operator == "-z")
        if operator == "-v":
            return self._state.is_set(operand)
        return None

    def _binary(self, node: Node, source: Source) -> Answer:
        left, middle, right = node.children[0], node.children[1], node.children[-1]
        operator = source.text(middle.start_byte, middle.end_byte)
        if operator in _JOINS:
            one, other = self.test(left, source), self.test(right, source)
            return both(one, other) if operator in ("&&", "-a") else either(one, other)
        a, b = self._value(left, source), self._value(right, source)
        if is_unknown(a) or is_unknown(b):
            return None
        if operator in _NUMERIC:
            try:
                return _NUMERIC[operator](int(a or "0"), int(b or "0"))
            except ValueError:
                return None
        return _compare(operator, a, b)

    def _value(self, node: Node, source: Source) -> str:
        """A text in which variables that nothing sets count as empty, as they would be without an environment."""
        text = self._expand(node, source)
        for name in unknown_names(text):
            unknown = self._state.unknowns.get(name)
            if unknown is not None and unknown.reason.startswith("an environment variable that the script does not"):
                text = text.replace(f"\ue000{name}\ue001", "")
        return text


def _compare(operator: str, a: str, b: str) -> Answer:
    if operator in ("=", "=="):
        return a == b or _matches(a, b)
    if operator == "!=":
        return not (a == b or _matches(a, b))
    if operator in ("<", ">"):
        return a < b if operator == "<" else a > b
    if operator == "=~" and len(a) < 1000 and is_tame(b):
        return re.search(b, a) is not None
    return None


def _matches(text: str, pattern: str) -> bool:
    return len(text) < 1000 and "*" in pattern and re.fullmatch(translate(pattern), text) is not None


def is_tame(pattern: str) -> bool:
    """Whether a regular expression from a script can be tried without the risk of endless backtracking."""
    if len(pattern) > 100 or "(" in pattern or sum(pattern.count(char) for char in "*+{") > 2:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def negated(answer: Answer) -> Answer:
    """Not, of three values."""
    return None if answer is None else not answer


def both(one: Answer, other: Answer) -> Answer:
    """And, of three values."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def either(one: Answer, other: Answer) -> Answer:
    """Or, of three values."""
    if one is True or other is True:
        return True
    return None if one is None or other is None else False
