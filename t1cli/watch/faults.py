"""What is wrong with a file of rules or of their tests, in words: the rule, its line, the near name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from pydantic import ValidationError

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.block import Block
from t1cli.spec.diagnose import diagnose
from t1cli.spec.node import Node, Place
from t1cli.spec.yaml_reader import Layer, read_text

_LISTED: Final = {"rules": "rule", "diagnoses": "diagnosis", "tests": "test"}
_PATH: Final = re.compile(rf"`({'|'.join(_LISTED)})\[(\d+)\]\.?([^`]*)`")
_BRANCHES: Final = ("float", "str", "int")
"""Last words of pydantic's places that name a branch of `float | str`, and no key."""


def tree_of(text: str, where: str, found: object) -> Node:
    """The text with its lines; plain data where that cannot be read. Raises BadInput for a key that stands twice."""
    problems: list[Diagnostic] = []
    tree = read_text(text, Layer("rules", where), problems)
    twice = tuple(problem for problem in problems if " stands twice, " in problem.message)
    if twice:
        raise BadInput.many(twice)
    return tree if tree is not None and not problems else plain_tree(found, where)


def plain_tree(found: object, where: str) -> Node:
    """Plain data as a tree that stands at one place."""
    if isinstance(found, Mapping):
        content: object = {str(key): plain_tree(value, where) for key, value in found.items()}
    elif isinstance(found, list | tuple):
        content = tuple(plain_tree(value, where) for value in found)
    else:
        content = found
    return Node(content, Place(where))


def refusal(error: ValidationError, root: type[Block], tree: Node) -> BadInput:
    """All of pydantic's problems as one error, each with the name of its rule, its line and a near name."""
    told = diagnose(cast(ValidationError, _Joined(error)), root, tree, complete=True)
    return BadInput.many(tuple(replace(one, message=_named(one.message, tree)) for one in told))


class _Joined:
    """An error whose branches of `number or text` are one problem."""

    def __init__(self, error: ValidationError) -> None:
        self._error = error

    def errors(self, **options: Any) -> Sequence[Any]:
        found: dict[tuple[Any, ...], Any] = {}
        for item in self._error.errors(**options):
            loc = tuple(item["loc"])
            if len(loc) > 1 and loc[-1] in _BRANCHES and item["type"].endswith(("_type", "_parsing")):
                found.setdefault(loc[:-1], {**item, "loc": loc[:-1], "type": "number_or_expression"})
            else:
                found[(*loc, item["type"])] = item
        return list(found.values())


def _named(message: str, tree: Node) -> str:
    """`rules[0].window` as people know it: `window` of rule `entropy-low`."""

    def words(path: re.Match[str]) -> str:
        kind, number, key = _LISTED[path[1]], int(path[2]), path[3]
        rules = tree.get(path[1])
        entry = rules.get(number) if rules is not None else None
        name = entry.get("name") if entry is not None else None
        known = f"{kind} `{name.content}`" if name is not None else f"{kind} {number + 1}"
        return f"`{key}` of {known}" if key else known

    return _PATH.sub(words, message).replace(" in `rule", " in rule")
