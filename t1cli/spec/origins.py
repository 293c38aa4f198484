"""Where every value came from: the chain of layers behind a dotted key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from t1cli.errors import BadInput
from t1cli.spec.node import Node, Origin

if TYPE_CHECKING:
    from t1cli.spec.load import LoadedSpec

DEFAULT = "default"


@dataclass(frozen=True)
class Trace:
    """Origins of a composed tree."""

    origins: Mapping[str, Origin]
    """Dotted key of every leaf to its origin, defaults included. A list is one leaf."""
    places: Mapping[str, str]
    """`file:line` of every key that stands in a file or on the command line, blocks and list items included."""


def trace(tree: Node, resolved: Mapping[str, Any]) -> Trace:
    """Origins of every leaf of `resolved` (the spec as plain data), from the tree that it was built from."""
    origins = {key: _origin(node) for key, node in leaves(tree)}
    for key, value in _plain_leaves(resolved):
        if key not in origins:
            origins[key] = Origin(DEFAULT, value)
    return Trace(origins, {key: node.place.where for key, node in nodes(tree) if key})


def explain(loaded: LoadedSpec, key: str) -> list[str]:
    """Lines that say what a key holds, which layer gave it, and what that layer replaced, newest first."""
    under = [name for name in loaded.origins if name == key or name.startswith(f"{key}.")]
    if not under and key not in loaded.dropped:
        raise _unknown(loaded, key)
    lines: list[str] = []
    for name in under:
        lines += _chain(name, loaded.origins[name])
    if key in loaded.dropped:
        lines += _chain(f"{key} (dropped: a later layer replaced its block)", loaded.dropped[key])
    return lines


def leaves(tree: Node, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Dotted key and node of every scalar, list and empty mapping."""
    if isinstance(tree.content, dict) and tree.content:
        for key, child in tree.content.items():
            yield from leaves(child, f"{prefix}.{key}" if prefix else key)
    elif prefix:
        yield prefix, tree


def nodes(tree: Node, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Dotted key and node of everything, list items by their index."""
    yield prefix, tree
    if isinstance(tree.content, dict):
        for key, child in tree.content.items():
            yield from nodes(child, f"{prefix}.{key}" if prefix else key)
    elif isinstance(tree.content, tuple):
        for index, child in enumerate(tree.content):
            yield from nodes(child, f"{prefix}.{index}")


def _origin(node: Node) -> Origin:
    return Origin(node.place.where, node.plain(), node.replaced)


def _plain_leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from _plain_leaves(child, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, value


def _chain(name: str, origin: Origin) -> list[str]:
    lines = [f"{name} = {_shown(origin.value)}   {origin.where}"]
    lines += [f"  replaced {_shown(old.value)}   {old.where}" for old in reversed(origin.replaced)]
    return lines


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, str) else f'"{value}"'


def _unknown(loaded: LoadedSpec, key: str) -> BadInput:
    near = get_close_matches(key, list(loaded.origins), n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`t1 schema --markdown` lists every key"
    return BadInput(f"no key `{key}` in {loaded.spec.name}", str(loaded.path), hint)
