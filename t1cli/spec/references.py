"""`${block.key}` becomes the value under that key. Nothing outside the spec is read. The only user of OmegaConf."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from t1cli.errors import Diagnostic
from t1cli.spec.node import Node

MAX_CHARACTERS: Final = 100_000
"""Size of a whole spec with its references written out; a few references to references can ask for terabytes."""

_REFERENCE: Final = re.compile(r"\$\{([^${}]*)\}")
_KEY: Final = re.compile(r"[\w/-]+(\.[\w/-]+)*")
_MISSING: Final = "???"
_FORM: Final = "only `${block.key}` is read, for example `${rollout.context_tokens}`"
_OUTSIDE: Final = 'only `${block.key}` is read; hand outside values in with --set block.key="$VALUE"'


def resolve_references(tree: Node, problems: list[Diagnostic]) -> Node:
    """The tree with every reference replaced; one that cannot be replaced stays, and is reported."""
    referring = list(_referring(tree))
    if not referring:
        return tree
    broken = {id(node) for node in referring if _is_broken(node, problems)}
    if _Sizes(tree).of(tree) > MAX_CHARACTERS:
        message = f"references that grow to more than {MAX_CHARACTERS} characters"
        _say(referring[0], message, problems, "refer to single values, not to values full of references")
        return tree
    from omegaconf import OmegaConf

    return _resolved(tree, OmegaConf.create(_plain(tree, broken)), problems)


def _referring(node: Node) -> Iterator[Node]:
    if isinstance(node.content, dict):
        for child in node.content.values():
            yield from _referring(child)
    elif isinstance(node.content, tuple):
        for child in node.content:
            yield from _referring(child)
    elif isinstance(node.content, str) and "${" in node.content:
        yield node


def _is_broken(node: Node, problems: list[Diagnostic]) -> bool:
    before = len(problems)
    inside = _REFERENCE.findall(node.content)
    if re.search(r"\$\{[^}]*:", node.content):
        _say(node, f"`{node.content}` asks for something outside the spec", problems, _OUTSIDE)
    elif "${" in _REFERENCE.sub("", node.content) or not all(_KEY.fullmatch(key) for key in inside):
        _say(node, f"`{node.content}` is no reference", problems, _FORM)
    return len(problems) > before


def _plain(node: Node, broken: set[int]) -> Any:
    """Plain values for OmegaConf, with its sign for a missing value where a reference is broken."""
    if id(node) in broken:
        return _MISSING
    if isinstance(node.content, dict):
        return {key: _plain(child, broken) for key, child in node.content.items()}
    return [_plain(item, broken) for item in node.content] if isinstance(node.content, tuple) else node.content


class _Sizes:
    """Characters of a node with its references written out; a cycle counts once, and is reported when resolved."""

    def __init__(self, tree: Node) -> None:
        self._tree = tree
        self._known: dict[int, int] = {}

    def of(self, node: Node) -> int:
        """At least 1."""
        if id(node) not in self._known:
            self._known[id(node)] = 1
            self._known[id(node)] = self._measure(node)
        return self._known[id(node)]

    def _measure(self, node: Node) -> int:
        if isinstance(node.content, dict):
            return 1 + sum(len(key) + self.of(child) for key, child in node.content.items())
        if isinstance(node.content, tuple):
            return 1 + sum(self.of(child) for child in node.content)
        text = str(node.content)
        targets = (self._target(key) for key in (_REFERENCE.findall(text) if isinstance(node.content, str) else ()))
        return 1 + len(text) + sum(self.of(target) for target in targets if target is not None)

    def _target(self, key: str) -> Node | None:
        node: Node | None = self._tree
        for part in key.split("."):
            node = node.get(part) if node is not None else None
        return node


def _resolved(node: Node, config: Any, problems: list[Diagnostic]) -> Node:
    if isinstance(node.content, dict):
        content: Any = {key: _child(child, config, key, problems) for key, child in node.content.items()}
    elif isinstance(node.content, tuple):
        content = tuple(_child(child, config, index, problems) for index, child in enumerate(node.content))
    else:
        return node
    return replace(node, content=content)


def _child(node: Node, config: Any, key: str | int, problems: list[Diagnostic]) -> Node:
    if not isinstance(node.content, str):
        return _resolved(node, config[key], problems) if isinstance(node.content, dict | tuple) else node
    return _look_up(node, config, key, problems) if "${" in node.content and not _is_missing(config, key) else node


def _is_missing(config: Any, key: str | int) -> bool:
    from omegaconf import OmegaConf

    return bool(OmegaConf.is_missing(config, key))


def _look_up(node: Node, config: Any, key: str | int, problems: list[Diagnostic]) -> Node:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        value = config[key]
        value = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except (OmegaConfBaseException, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it refers to itself"
        _say(node, f"cannot resolve `{node.content}`: {reason}", problems, "name a key that this spec gives a value")
        return node
    return _as_node(value, node)


def _as_node(value: Any, model: Node) -> Node:
    if isinstance(value, dict):
        return replace(model, content={str(key): _as_node(child, model) for key, child in value.items()}, text="")
    if isinstance(value, list):
        return replace(model, content=tuple(_as_node(child, model) for child in value), text="")
    return replace(model, content=value, text="")


def _say(node: Node, message: str, problems: list[Diagnostic], hint: str) -> None:
    problems.append(Diagnostic(message, node.place.exact, node.place.source_line, hint))
