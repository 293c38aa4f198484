"""Where every value came from: the chain of layers behind a dotted key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from t1cli.spec.node import Node, Origin

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
