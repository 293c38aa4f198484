"""Two layers become one tree: mappings merge, lists replace, a changed `kind` replaces the whole block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from t1cli.spec.node import Node, Origin


@dataclass(frozen=True)
class Merged:
    """The composed tree, and the leaves that vanished with a replaced block."""

    tree: Node
    dropped: Mapping[str, Origin] = field(default_factory=dict)
    """Dotted key of each leaf that no longer exists because a layer changed its block's `kind`."""


def merge(base: Node, over: Node) -> Merged:
    """`over` on top of `base`; every leaf remembers what it replaced."""
    dropped: dict[str, Origin] = {}
    tree = _merge(base, over, "", dropped)
    return Merged(tree, dropped)


def _merge(base: Node, over: Node, key: str, dropped: dict[str, Origin]) -> Node:
    if not isinstance(over.content, dict):
        _drop(base, over, key, dropped)
        return over.with_history(base)
    if not isinstance(base.content, dict):
        return over
    if _changes_kind(base, over):
        _drop(base, over, key, dropped)
        return _remember(base, over)
    content = dict(base.content)
    for name, child in over.content.items():
        older = content.get(name)
        below = f"{key}.{name}" if key else name
        content[name] = child if older is None else _merge(older, child, below, dropped)
    # A block that a file opened stays there: `--set` has no line to show for what the block lacks.
    return replace(over, content=content, place=over.place if over.place.line else base.place)


def _changes_kind(base: Node, over: Node) -> bool:
    old, new = base.get("kind"), over.get("kind")
    return old is not None and new is not None and old.content != new.content


def _remember(base: Node, over: Node) -> Node:
    """The new block, its leaves remembering what the old block held under the same key."""
    if not isinstance(over.content, dict) or not isinstance(base.content, dict):
        return over.with_history(base)
    content = {
        name: child if (older := base.get(name)) is None else _remember(older, child)
        for name, child in over.content.items()
    }
    return replace(over, content=content)


def _drop(base: Node, over: Node | None, key: str, dropped: dict[str, Origin]) -> None:
    if isinstance(base.content, dict) and base.content:
        for name, child in base.content.items():
            _drop(child, over.get(name) if over else None, f"{key}.{name}" if key else name, dropped)
    elif over is None:
        dropped[key] = Origin(base.place.where, base.plain(), base.replaced)
