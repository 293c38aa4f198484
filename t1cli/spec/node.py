"""The tree between YAML and the spec: plain values that still know their file, line and history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Origin:
    """Where one value came from, and what it replaced."""

    where: str
    """`presets/algorithm/ppo.yaml:7`, `experiment.yaml:31` or `--set`; `default` for a field's default."""
    value: Any
    """The value this layer gave."""
    replaced: tuple[Origin, ...] = ()
    """What earlier layers had given for the same key, oldest first."""


@dataclass(frozen=True)
class Place:
    """A position in a file or on the command line."""

    file: str
    """The file as it is shown to people, or `--set`."""
    line: int = 0
    """Line from 1; 0 where lines mean nothing."""
    column: int = 0
    """Column from 1; 0 where columns mean nothing."""
    source_line: str = ""
    """The text of that line."""

    @property
    def where(self) -> str:
        """`file:line`, or the file alone."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def exact(self) -> str:
        """`file:line:column`, or what of it is known."""
        return f"{self.where}:{self.column}" if self.column else self.where


@dataclass(frozen=True)
class Node:
    """One value of a layer or of the composed tree."""

    content: Any
    """A scalar, a dict of nodes or a tuple of nodes."""
    place: Place
    """Where its key stands; for a list item, where the item stands."""
    layer: str = ""
    """Name of the layer that gave it."""
    text: str = ""
    """A plain scalar as it was written (`off`, `1:30`); empty for anything quoted or nested."""
    replaced: tuple[Origin, ...] = ()
    """What earlier layers had given."""
    refused: bool = False
    """A value that could not be read, and has been reported: its key is neither missing nor of a wrong type."""

    def plain(self) -> Any:
        """The value without positions, as dicts, lists and scalars."""
        if isinstance(self.content, dict):
            return {key: child.plain() for key, child in self.content.items()}
        if isinstance(self.content, tuple):
            return [child.plain() for child in self.content]
        return self.content

    def get(self, part: str | int) -> Node | None:
        """The child under a key or index, or nothing."""
        if isinstance(self.content, dict):
            child = self.content.get(part)
            return child if isinstance(child, Node) else None
        if isinstance(self.content, tuple) and isinstance(part, int) and 0 <= part < len(self.content):
            item = self.content[part]
            return item if isinstance(item, Node) else None
        return None

    def holds_refused(self) -> bool:
        """Whether this value or one below it could not be read."""
        if isinstance(self.content, dict):
            return any(child.holds_refused() for child in self.content.values())
        if isinstance(self.content, tuple):
            return any(child.holds_refused() for child in self.content)
        return self.refused

    def layers(self) -> Iterator[str]:
        """Names of the layers that the leaves below came from."""
        if isinstance(self.content, dict) and self.content:
            for child in self.content.values():
                yield from child.layers()
        else:
            yield self.layer

    def with_history(self, older: Node | None) -> Node:
        """This leaf, remembering the one it replaces."""
        if older is None:
            return self
        return replace(self, replaced=(*older.replaced, Origin(older.place.where, older.plain()), *self.replaced))
