"""`${block.key}` becomes the value under that key. Nothing outside the spec is read. The only user of OmegaConf."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
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
    if _Sizes(tree).of(tree) > MAX_CHARACTERS:
        message = f"references that grow to more than {MAX_CHARACTERS} characters"
        problems.append(_told(referring[0], message, "refer to single values, not to values full of references"))
        return tree
    broken = {id(node): found for node in referring if (found := _broken(node)) is not None}
    return _Resolver(broken, problems).resolved(tree)


def _referring(node: Node) -> Iterator[Node]:
    if isinstance(node.content, dict):
        for child in node.content.values():
            yield from _referring(child)
    elif isinstance(node.content, tuple):
        for child in node.content:
            yield from _referring(child)
    elif isinstance(node.content, str) and "${" in node.content:
        yield node


def _broken(node: Node) -> Diagnostic | None:
    inside = _REFERENCE.findall(node.content)
    if re.search(r"\$\{[^}]*:", node.content):
        return _told(node, f"`{node.content}` asks for something outside the spec", _OUTSIDE)
    if "${" in _REFERENCE.sub("", node.content) or not all(_KEY.fullmatch(key) for key in inside):
        return _told(node, f"`{node.content}` is no reference", _FORM)
    return None


def _plain(node: Node, broken: Collection[int]) -> Any:
    """Plain values for OmegaConf, with its sign for a missing value where a reference is broken."""
    if id(node) in broken or node.refused:
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


class _Resolver:
    """Replaces references leaf by leaf, in file order."""

    def __init__(self, broken: Mapping[int, Diagnostic], problems: list[Diagnostic]) -> None:
        self._broken = broken
        self._problems = problems

    def resolved(self, tree: Node) -> Node:
        from omegaconf import OmegaConf

        return self._block(tree, OmegaConf.create(_plain(tree, self._broken)))

    def _block(self, node: Node, config: Any) -> Node:
        if isinstance(node.content, dict):
            content: Any = {key: self._child(child, config, key) for key, child in node.content.items()}
        elif isinstance(node.content, tuple):
            content = tuple(self._child(child, config, index) for index, child in enumerate(node.content))
        else:
            return node
        return replace(node, content=content)

    def _child(self, node: Node, config: Any, key: str | int) -> Node:
        if isinstance(node.content, dict | tuple):
            return self._block(node, config[key])
        if id(node) in self._broken:
            self._problems.append(self._broken[id(node)])
            return node
        return self._look_up(node, config, key) if isinstance(node.content, str) and "${" in node.content else node

    def _look_up(self, node: Node, config: Any, key: str | int) -> Node:
        from omegaconf import OmegaConf
        from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue, OmegaConfBaseException

        try:
            value = config[key]
            if OmegaConf.is_config(value):
                value = OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
        except (InterpolationToMissingValueError, MissingMandatoryValue):
            return replace(node, content=None, refused=True)  # what it refers to has been reported
        except (OmegaConfBaseException, RecursionError) as error:
            reason = str(error).splitlines()[0] if str(error) else "it refers to itself"
            hint = "name a key that a file or --set gives a value"
            self._problems.append(_told(node, f"cannot resolve `{node.content}`: {reason}", hint))
            return node
        return _as_node(value, node)


def _as_node(value: Any, model: Node) -> Node:
    if isinstance(value, dict):
        return replace(model, content={str(key): _as_node(child, model) for key, child in value.items()}, text="")
    if isinstance(value, list):
        return replace(model, content=tuple(_as_node(child, model) for child in value), text="")
    return replace(model, content=value, text="")


def _told(node: Node, message: str, hint: str) -> Diagnostic:
    return Diagnostic(message, node.place.exact, node.place.source_line, hint)
