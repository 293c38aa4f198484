"""How large and how odd a spec may be; what is beyond it is refused before anything computes with it."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

MAX_NODES = 20_000
MAX_DEPTH = 32
MAX_TEXT = 4096
"""Characters of one value or key; the longest real ones are paths."""
LARGEST_WHOLE = 2**53
"""Whole numbers up to here are exact in JSON, YAML and floating point alike."""
LARGEST, SMALLEST = 1e18, 1e-18
"""Sizes between which arithmetic over a spec neither overflows nor divides by nothing."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that no name, path or text of a spec has, but that steer a terminal or end a C string."""


def why_no_text(text: str) -> tuple[str, str] | None:
    """What is wrong with a scalar as text, and a hint."""
    if len(text) > MAX_TEXT:
        return f"{len(text)} characters in one value", f"at most {MAX_TEXT}"
    if control := _CONTROL.search(text):
        return f"the control character U+{ord(control[0]):04X} in a value", "text of a spec is printable"
    return None


def why_no_number(value: Any) -> tuple[str, str] | None:
    """What is wrong with the size of a number, and a hint."""
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return f"a whole number of {len(str(abs(value)))} digits", f"at most {LARGEST_WHOLE} (2^53) in size"
    if isinstance(value, float) and math.isfinite(value) and value != 0 and not SMALLEST <= abs(value) <= LARGEST:
        return f"the number {value:g}", f"0, or between {SMALLEST:g} and {LARGEST:g} in size"
    return None


def why_too_large(root: yaml.Node) -> tuple[str, str] | None:
    """What is wrong with a tree's size once every alias is expanded, and a hint; an alias to itself is never small."""
    nodes, depth = _measure(root, {})
    if nodes > MAX_NODES:
        message = f"more than {MAX_NODES} values once aliases are expanded"
        return message, "a spec has a few hundred; no alias stands inside its own anchor"
    return (f"nested {depth} deep; a spec needs no more than {MAX_DEPTH}", "") if depth > MAX_DEPTH else None


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Nodes and depth below a node, aliases expanded. A node met again inside itself counts as endless."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = (MAX_NODES + 1, 0)
    below = [_measure(child, known) for child in _children(node)]
    known[id(node)] = 1 + sum(size for size, _ in below), 1 + max((depth for _, depth in below), default=0)
    return known[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
