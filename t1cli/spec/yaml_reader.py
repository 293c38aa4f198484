"""One YAML file or one `--set` value to a Node tree. Every problem is collected with its position."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from t1cli.errors import Diagnostic
from t1cli.spec.node import Node, Place

MAX_BYTES = 1 << 20
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


@dataclass(frozen=True)
class Layer:
    """One source of values."""

    name: str
    """A preset's name, `experiment` or `--set`."""
    shown: str
    """The file as it is shown to people."""


def read_file(path: Path, layer: Layer, problems: list[Diagnostic]) -> Node | None:
    """The mapping in a YAML file; None (and at least one problem) when it cannot be read as one."""
    text = _read_text(path, layer.shown, problems)
    return None if text is None else _Reader(layer, text, problems).mapping()


def read_value(text: str, place: Place, problems: list[Diagnostic]) -> Node | None:
    """The value of a `--set`, in YAML's own notation: `1e-6`, `[a, b]`, `null`, `"off"`."""
    reader = _Reader(Layer(place.file, place.file), text, problems, fixed_place=place)
    return reader.any_value()


def _read_text(path: Path, shown: str, problems: list[Diagnostic]) -> str | None:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        hint = "an experiment is a YAML file that this user may read"
        problems.append(Diagnostic(f"cannot read {shown}: {error.strerror}", shown, hint=hint))
        return None
    if len(raw) > MAX_BYTES:
        message = f"more than {MAX_BYTES} bytes is no experiment file"
        problems.append(Diagnostic(message, shown, hint="a real one has a few thousand bytes"))
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.append(Diagnostic(f"not UTF-8 text: byte 0x{raw[error.start]:02x}", f"{shown}:{line}"))
        return None
    return text


class _Loader(yaml.SafeLoader):
    """PyYAML with YAML 1.2 numbers: `1e-6` is a number, `1:30`, `0755` and dates are strings."""


_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NUMBERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_FLOAT = r"""^[-+]?(?:(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?
             |[0-9][0-9_]*[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$"""
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(_FLOAT, re.X), list("-+0123456789."))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_SCALAR_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}


class _Reader:
    def __init__(self, layer: Layer, text: str, problems: list[Diagnostic], fixed_place: Place | None = None) -> None:
        self._layer = layer
        self._text = text
        self._lines = text.splitlines()
        self._problems = problems
        self._fixed = fixed_place

    def mapping(self) -> Node | None:
        before = len(self._problems)
        root = self._compose()
        if root is None:
            if len(self._problems) == before:
                self._problems.append(Diagnostic("the file is empty", self._layer.shown))
            return None
        if not isinstance(root, yaml.MappingNode):
            self._say(
                root.start_mark, "expected `key: value` lines at the top level", "a spec is one mapping of blocks"
            )
            return None
        return self._build(root, self._place(root.start_mark))

    def any_value(self) -> Node | None:
        root = self._compose()
        return None if root is None or self._fixed is None else self._build(root, self._fixed)

    def _compose(self) -> yaml.Node | None:
        loader: _Loader | None = None
        try:
            loader = _Loader(self._text)
            self._constructor = loader
            root: yaml.Node | None = loader.get_single_node()
            if root is not None and not self._is_small(root):
                return None
            return root
        except yaml.MarkedYAMLError as error:
            self._say(error.problem_mark or error.context_mark, *_syntax(error))
        except yaml.YAMLError as error:
            position = getattr(error, "position", 0)
            line = self._text.count("\n", 0, position) + 1
            self._problems.append(Diagnostic(f"not YAML text: {_first_line(error)}", f"{self._layer.shown}:{line}"))
        except RecursionError:
            self._problems.append(Diagnostic("nested too deeply to be an experiment", self._layer.shown))
        finally:
            if loader is not None:
                loader.dispose()
        return None

    def _is_small(self, root: yaml.Node) -> bool:
        """Whether the tree stays small once every alias is expanded; an alias to itself never is."""
        nodes, depth = _measure(root, {})
        if nodes > MAX_NODES:
            message = f"more than {MAX_NODES} values once aliases are expanded"
            self._say(root.start_mark, message, "a spec has a few hundred; no alias stands inside its own anchor")
        elif depth > MAX_DEPTH:
            self._say(root.start_mark, f"nested {depth} deep; a spec needs no more than {MAX_DEPTH}")
        return nodes <= MAX_NODES and depth <= MAX_DEPTH

    def _build(self, node: yaml.Node, place: Place) -> Node | None:
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            items = [self._build(item, self._place(item.start_mark)) for item in node.value]
            return self._node(tuple(item for item in items if item is not None), place)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALAR_TAGS:
            self._say(node.start_mark, f"the YAML tag `{node.tag.replace('tag:yaml.org,2002:', '!!')}` is not allowed")
            return None
        if wrong := _why_no_text(node.value):
            self._say(node.start_mark, *wrong)
            return None
        try:
            value: Any = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            self._say(node.start_mark, f"cannot read `{node.value}`: {_first_line(error)}")
            return None
        if wrong := _why_no_number(value):
            self._say(node.start_mark, *wrong)
            return None
        return replace(self._node(value, place), text=node.value if node.style is None else "")

    def _build_mapping(self, node: yaml.MappingNode, place: Place) -> Node:
        content: dict[str, Node] = {}
        first_at: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is None:
                continue
            if key in first_at:
                message = f"`{key}` stands twice, on lines {first_at[key]} and {key_node.start_mark.line + 1}"
                self._say(key_node.start_mark, message, "remove one of them")
                continue
            first_at[key] = key_node.start_mark.line + 1
            child = self._build(value_node, self._place(key_node.start_mark))
            if child is not None:
                content[key] = child
        return self._node(content, place)

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._say(node.start_mark, "a key must be a word")
            return None
        if node.tag == "tag:yaml.org,2002:merge":
            self._say(node.start_mark, "`<<` merges are not read", "list fragments under `presets:` instead")
            return None
        if wrong := _why_no_text(node.value):
            self._say(node.start_mark, *wrong)
            return None
        return str(node.value)

    def _node(self, content: Any, place: Place) -> Node:
        return Node(content, place, self._layer.name)

    def _place(self, mark: yaml.Mark) -> Place:
        if self._fixed is not None:
            return self._fixed
        line = self._lines[mark.line] if mark.line < len(self._lines) else ""
        return Place(self._layer.shown, mark.line + 1, mark.column + 1, line.rstrip())

    def _say(self, mark: yaml.Mark | None, message: str, hint: str = "") -> None:
        place = Place(self._layer.shown) if mark is None else self._place(mark)
        self._problems.append(Diagnostic(message, place.exact, place.source_line, hint))


def _why_no_text(text: str) -> tuple[str, str] | None:
    """What is wrong with a scalar as text, and a hint."""
    if len(text) > MAX_TEXT:
        return f"{len(text)} characters in one value", f"at most {MAX_TEXT}"
    if control := _CONTROL.search(text):
        return f"the control character U+{ord(control[0]):04X} in a value", "text of a spec is printable"
    return None


def _why_no_number(value: Any) -> tuple[str, str] | None:
    """What is wrong with the size of a number, and a hint."""
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return f"a whole number of {len(str(abs(value)))} digits", f"at most {LARGEST_WHOLE} (2^53) in size"
    if isinstance(value, float) and math.isfinite(value) and value != 0 and not SMALLEST <= abs(value) <= LARGEST:
        return f"the number {value:g}", f"0, or between {SMALLEST:g} and {LARGEST:g} in size"
    return None


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


def _syntax(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    problem = error.problem or "not YAML"
    if "'\\t'" in problem:
        return "a tab where YAML wants spaces", "indent with spaces only"
    if "mapping values are not allowed" in problem:
        return "unexpected `:`", "indent with spaces, and quote a value that holds `: `"
    if "undefined alias" in problem:
        return problem, "an alias needs an anchor (`&name`) above it in the same file"
    return f"not YAML: {problem}", ""


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
