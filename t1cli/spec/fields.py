"""Walks the spec's types: which block a dotted key belongs to, and which fields it has."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from t1cli.spec.block import Block
from t1cli.spec.node import Node


def blocks_of(annotation: Any) -> tuple[type[Block], ...]:
    """The block classes that a field's annotation allows; empty for scalars and lists."""
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return (annotation,)
    if get_origin(annotation) is Annotated:
        return blocks_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(block for option in get_args(annotation) for block in blocks_of(option))
    return ()


def kind_of(block: type[Block]) -> str | None:
    """The tag of a variant, or nothing for a block without variants."""
    field = block.model_fields.get("kind")
    if field is None or get_origin(field.annotation) is not Literal:
        return None
    names = get_args(field.annotation)
    return str(names[0]) if len(names) == 1 else None


def block_at(root: type[Block], tree: Node, keys: tuple[str | int, ...]) -> type[Block] | None:
    """The block class at a path, choosing variants by the `kind` that the tree holds there."""
    block: type[Block] | None = root
    node: Node | None = tree
    of_items = False
    for key in keys:
        node = node.get(key) if node is not None else None
        if of_items:  # the block of a list or a table of blocks is that of its items
            of_items = False
            continue
        if block is None or not isinstance(key, str) or key not in block.model_fields:
            return None
        annotation = block.model_fields[key].annotation
        own = blocks_of(annotation)
        of_items = not own
        block = _choose(own or _blocks_of_items(annotation), node)
    return block


def key_names(block: type[Block]) -> list[str]:
    """The keys of a block as a file writes them."""
    return [field.alias or name for name, field in block.model_fields.items()]


def all_keys(block: type[Block], prefix: str = "") -> Iterator[tuple[str, type[Block]]]:
    """Every dotted key of a block and the class that owns it, all variants included."""
    for name, field in block.model_fields.items():
        key = f"{prefix}.{name}" if prefix else name
        yield key, block
        for inner in blocks_of(field.annotation):
            yield from all_keys(inner, key)


def _blocks_of_items(annotation: Any) -> tuple[type[Block], ...]:
    items = get_args(annotation) if get_origin(annotation) in (tuple, dict) else ()
    return tuple(block for item in items for block in blocks_of(item))


def _choose(options: tuple[type[Block], ...], node: Node | None) -> type[Block] | None:
    if len(options) == 1:
        return options[0]
    kind = node.get("kind") if node is not None else None
    for option in options:
        if kind is not None and kind_of(option) == kind.content:
            return option
    return None
