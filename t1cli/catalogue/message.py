"""The text that a message will have, read from the expression that makes it; values stand in ‹angle quotes›."""

from __future__ import annotations

import ast
from collections.abc import Mapping

Bound = Mapping[str, ast.expr]
"""Names of a function and the expressions they were last given."""

_DEEPEST = 4


def message_text(node: ast.expr | None, bound: Bound, depth: int = 0) -> str:
    """What an expression would print. Names are followed to what they were given, a few levels deep."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(message_text(part, bound, depth) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _command(node.value, bound, depth) or f"‹{_short(node.value)}›"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return message_text(node.left, bound, depth) + message_text(node.right, bound, depth)
    if isinstance(node, ast.IfExp):
        return message_text(node.body, bound, depth) or message_text(node.orelse, bound, depth)
    if isinstance(node, ast.Name) and depth < _DEEPEST and node.id in bound:
        return message_text(bound[node.id], bound, depth + 1)
    return _command(node, bound, depth) or f"‹{_short(node)}›"


def _command(node: ast.expr, bound: Bound, depth: int) -> str:
    """A command to paste: `loaded.again("plan", …)` is about the experiment, `command_line("runs", …)` about none."""
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    made_by = _short(node.func)
    if made_by not in ("again", "command line"):
        return ""
    words = [message_text(word, bound, depth) for word in node.args]
    about = ["SPEC"] if made_by == "again" else []
    return " ".join(["t1", words[0], *about, *words[1:]])


def bound_names(function: ast.AST) -> dict[str, ast.expr]:
    """Names that a function gives a text, with the first expression given."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _bind(found, target, node.value)
    return found


def _bind(found: dict[str, ast.expr], target: ast.expr, value: ast.expr) -> None:
    if isinstance(target, ast.Name) and isinstance(value, ast.JoinedStr | ast.Constant | ast.BinOp):
        found.setdefault(target.id, value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for inner, given in zip(target.elts, value.elts, strict=True):
            _bind(found, inner, given)


def _short(node: ast.expr) -> str:
    """A name for a value: the last word of what it is taken from."""
    if isinstance(node, ast.Attribute):
        return node.attr.replace("_", " ")
    if isinstance(node, ast.Name):
        return node.id.strip("_").replace("_", " ")
    if isinstance(node, ast.Call):
        return _short(node.args[0]) if node.args and _is_plain(node) else _short(node.func)
    if isinstance(node, ast.Subscript):
        return _short(node.value)
    return "…"


def _is_plain(call: ast.Call) -> bool:
    """Whether a call only shows its argument in another way, such as `len(x)` or `", ".join(x)`."""
    return (
        isinstance(call.func, ast.Name) and call.func.id in ("len", "str", "round", "max", "min", "sorted", "shown")
    ) or (isinstance(call.func, ast.Attribute) and call.func.attr == "join")
