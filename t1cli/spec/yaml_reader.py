"""One YAML file or one `--set` value to a Node tree. Every problem is collected with its position."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from t1cli.errors import Diagnostic
from t1cli.spec.node import Node, Place
from t1cli.spec.yaml_limits import why_no_number, why_no_text, why_too_large

MAX_BYTES = 1 << 20


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


def read_text(text: str, layer: Layer, problems: list[Diagnostic]) -> Node | None:
    """The value in a YAML text, whatever it is; None (and at least one problem unless empty) when it is no YAML."""
    return _Reader(layer, text, problems).whole()


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


class _RefusedValue(Exception):
    """Message and hint for a value that no spec may hold."""


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

    def whole(self) -> Node | None:
        root = self._compose()
        return None if root is None else self._build(root, self._place(root.start_mark))

    def any_value(self) -> Node | None:
        root = self._compose()
        return None if root is None or self._fixed is None else self._build(root, self._fixed)

    def _compose(self) -> yaml.Node | None:
        loader: _Loader | None = None
        try:
            loader = _Loader(self._text)
            self._constructor = loader
            root: yaml.Node | None = loader.get_single_node()
            if root is not None and (wrong := why_too_large(root)):
                self._say(root.start_mark, *wrong)
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

    def _build(self, node: yaml.Node, place: Place) -> Node:
        """The value with its position; one that is refused has been reported and keeps its place."""
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return self._node(tuple(self._build(item, self._place(item.start_mark)) for item in node.value), place)
        try:
            value = self._scalar(node)
        except _RefusedValue as refusal:
            self._say(node.start_mark, *refusal.args)
            return replace(self._node(None, place), refused=True)
        return replace(self._node(value, place), text=node.value if getattr(node, "style", None) is None else "")

    def _scalar(self, node: yaml.Node) -> Any:
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALAR_TAGS:
            raise _RefusedValue(f"the YAML tag `{node.tag.replace('tag:yaml.org,2002:', '!!')}` is not allowed")
        if wrong := why_no_text(node.value):
            raise _RefusedValue(*wrong)
        try:
            value = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise _RefusedValue(f"cannot read `{node.value}`: {_first_line(error)}") from error
        if wrong := why_no_number(value):
            raise _RefusedValue(*wrong)
        return value

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
            content[key] = self._build(value_node, self._place(key_node.start_mark))
        return self._node(content, place)

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._say(node.start_mark, "a key must be a word")
            return None
        if node.tag == "tag:yaml.org,2002:merge":
            self._say(node.start_mark, "`<<` merges are not read", "list fragments under `presets:` instead")
            return None
        if wrong := why_no_text(node.value):
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
