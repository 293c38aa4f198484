"""Pydantic's errors as located diagnostics: file, line, the offending text, a near name, a hint."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from t1cli.errors import Diagnostic
from t1cli.spec.block import Block
from t1cli.spec.fields import all_keys, block_at, key_names
from t1cli.spec.locate import preset_names
from t1cli.spec.node import Node
from t1cli.spec.renamed import successor

Loc = tuple[str | int, ...]
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "dict_type": "a block of keys",
    "number_or_expression": "a number or an expression",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def diagnose(error: ValidationError, root: type[Block], tree: Node, complete: bool) -> list[Diagnostic]:
    """One diagnostic per pydantic error, in file order. An incomplete tree is not blamed for missing keys."""
    found: list[tuple[tuple[str, int, int], Diagnostic]] = []
    for item in error.errors(include_url=False):
        if not complete and item["type"] in ("missing", "union_tag_not_found"):
            continue
        path, node = position(tree, item)
        if isinstance(node.content, str) and "${" in node.content:
            continue  # an unresolved reference has been reported where it was looked up
        if item["type"] != "extra_forbidden" and _is_refused(node):
            continue  # what could not be read has been reported where it was read
        place = node.place
        found.append(((place.file, place.line, place.column), _diagnostic(item, root, tree, path)))
    return [diagnostic for _, diagnostic in sorted(found, key=lambda pair: pair[0])]


def walk(tree: Node, loc: Sequence[str | int]) -> tuple[Loc, Node]:
    """The path of the file behind a pydantic loc, union tags skipped, and the deepest node on it."""
    path: list[str | int] = []
    node = tree
    for index, part in enumerate(loc):
        child = node.get(part)
        if child is not None:
            path.append(part)
            node = child
        elif index == len(loc) - 1 and not _is_tag(node, part):
            path.append(part)
    return tuple(path), node


def position(tree: Node, item: Any) -> tuple[Loc, Node]:
    """Where one pydantic error belongs: a wrong tag at its `kind`, everything else at its own key."""
    loc = (*item["loc"], "kind") if item["type"] == "union_tag_invalid" else item["loc"]
    return walk(tree, loc)


def _is_refused(node: Node) -> bool:
    kind = node.get("kind")
    return node.refused or (kind is not None and kind.refused)


def _is_tag(node: Node, part: str | int) -> bool:
    kind = node.get("kind")
    return part == "[key]" or (kind is not None and kind.content == part)


def _diagnostic(item: Any, root: type[Block], tree: Node, path: Loc) -> Diagnostic:
    node = walk(tree, path)[1]
    message, hint = _words(item, root, tree, path)
    return Diagnostic(message, node.place.exact, node.place.source_line, hint)


def _words(item: Any, root: type[Block], tree: Node, path: Loc) -> tuple[str, str]:
    kind, key = item["type"], dotted(path)
    if kind == "missing":
        return f"`{key}` is missing", _meaning(root, tree, path)
    if kind == "extra_forbidden":
        return _unknown_key(root, tree, path)
    if kind == "union_tag_not_found":
        return f"`{key}` needs a `kind`", f"one of {item['ctx']['discriminator']}: see `t1 schema`"
    if kind == "union_tag_invalid":
        return _wrong_choice(key, item["ctx"]["tag"], item["ctx"]["expected_tags"])
    node = walk(tree, path)[1]
    if kind == "literal_error" and item["loc"][-1] == "[key]":
        _, near = _wrong_choice(key, path[-1], item["ctx"]["expected"])
        return f"unknown key `{path[-1]}` in `{dotted(path[:-1])}`", near or f"keys here: {item['ctx']['expected']}"
    if kind == "value_error":
        return f"`{key}`: {item['ctx']['error']}", ""
    if kind == "literal_error" and isinstance(node.content, str):
        return _wrong_choice(key, node.content, item["ctx"]["expected"])
    return f"`{key}` must be {_expected(item)}, found {_found(node)}", _trap(kind, node)


def dotted(path: Sequence[str | int]) -> str:
    """A path as people write it: `watch.rules[0].when`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text or "the file"


def _expected(item: Any) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind in _BOUNDS:
        word, name = _BOUNDS[kind]
        return f"{word} {context[name]:g}"
    if kind == "literal_error":
        return str(context["expected"])
    if kind == "string_pattern_mismatch":
        return f"text that matches {context['pattern']}"
    if kind == "too_short":
        return f"at least {context['min_length']} long"
    return str(item["msg"])[:1].lower() + str(item["msg"])[1:]


def _found(node: Node) -> str:
    value = node.plain()
    if isinstance(value, dict):
        return "a block of keys"
    if isinstance(value, list):
        return "a list"
    shown = json.dumps(value, ensure_ascii=False)
    return f"{node.text} (which YAML reads as {shown})" if _is_yaml_word(node) else shown


def _is_yaml_word(node: Node) -> bool:
    return isinstance(node.content, bool) and node.text.lower() not in ("", "true", "false")


def _trap(kind: str, node: Node) -> str:
    text = node.text or (node.content if isinstance(node.content, str) else "")
    wants_text = kind in ("string_type", "literal_error")
    if wants_text and node.text and isinstance(node.content, bool | int | float):
        return f'quote it: "{node.text}"'
    if re.fullmatch(r"\d+(:\d\d?)+(\.\d*)?", text):
        value = _base_60(text)
        return f"write plain numbers: {value} if {text} is minutes:seconds, {value * 60} if hours:minutes"
    if kind in ("int_type", "int_from_float") and isinstance(node.content, float) and node.content.is_integer():
        return f"write {int(node.content)}"
    if re.fullmatch(r"0\d+", text):
        return f"write {text.lstrip('0') or '0'}"
    if kind in ("tuple_type", "list_type") and isinstance(node.content, dict):
        return "a list is replaced whole: write [first, second]"
    if (
        isinstance(node.content, str)
        and _EXPECTED.get(kind, "").endswith("number")
        and re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", text)
    ):
        return f"write {text} without quotes"
    if kind == "bool_type" and isinstance(node.content, str) and text:
        return "write true or false"
    return ""


def _base_60(text: str) -> int:
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return int(total)


def _wrong_choice(key: str, value: object, expected: str) -> tuple[str, str]:
    options = re.findall(r"'([^']*)'", expected)
    near = get_close_matches(str(value), options, n=1)
    hint = f"did you mean `{near[0]}`?" if near else ""
    return f'`{key}` must be {" or ".join(options) or expected}, found "{value}"', hint


def _unknown_key(root: type[Block], tree: Node, path: Loc) -> tuple[str, str]:
    parents, name = path[:-1], str(path[-1])
    block = block_at(root, tree, parents)
    kind = walk(tree, parents)[1].get("kind") if parents else None
    variant = f" (kind: {kind.content})" if kind is not None else ""
    where = f" in `{dotted(parents)}`{variant}" if parents else ""
    message = f"unknown key `{name}`{where}"
    if moved := successor(dotted(path)):
        return message, moved
    own = key_names(block) if block is not None else []
    near = get_close_matches(name, own, n=1, cutoff=0.7)
    if near:
        return message, f"did you mean `{near[0]}`?"
    elsewhere = sorted({key for key, _ in all_keys(root) if key.rpartition(".")[2] == name})
    if elsewhere:
        return message, f"`{name}` belongs to {' or '.join(f'`{key}`' for key in elsewhere[:3])}"
    loose = get_close_matches(name, own, n=1, cutoff=0.5)
    if loose:
        return message, f"did you mean `{loose[0]}`?"
    return message, f"keys here: {', '.join(own)}" if own else ""


def _meaning(root: type[Block], tree: Node, path: Loc) -> str:
    block = block_at(root, tree, path[:-1])
    field = block.model_fields.get(str(path[-1])) if block is not None else None
    about = field.description.splitlines()[0] if field is not None and field.description else ""
    given_by = [name for name in preset_names() if len(path) == 1 and name.startswith(f"{path[0]}/")]
    return f"{about} Presets that give it: {', '.join(given_by)}" if given_by else about
