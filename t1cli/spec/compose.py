"""Presets left to right, then the file, then `--set`: one tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from t1cli.errors import Diagnostic
from t1cli.spec.locate import preset_names, presets_dir, shown_path
from t1cli.spec.merge import merge
from t1cli.spec.node import Node, Origin, Place
from t1cli.spec.overrides import read_overrides
from t1cli.spec.references import resolve_references
from t1cli.spec.yaml_reader import Layer, read_file

EXPERIMENT = "experiment"
MAX_PRESETS = 64


@dataclass(frozen=True)
class Composed:
    """The composed tree, and whether every layer could be read."""

    tree: Node
    dropped: Mapping[str, Origin]
    complete: bool
    """False when a layer is missing, so that a missing key may be that layer's fault."""


def compose(path: Path, overrides: Sequence[str], problems: list[Diagnostic]) -> Composed:
    """Compose an experiment file with its presets and overrides; what goes wrong is added to `problems`."""
    shown = shown_path(path)
    own = read_file(path, Layer(EXPERIMENT, shown), problems)
    complete = own is not None
    root = Node({}, Place(shown), EXPERIMENT)
    layers: list[Node] = []
    if own is not None:
        layers, all_read = _preset_layers(own, problems)
        complete = all_read
        layers.append(replace(own, content={key: node for key, node in own.content.items() if key != "presets"}))
    dropped: dict[str, Origin] = {}
    for layer in layers:
        merged = merge(root, layer)
        root = merged.tree
        dropped |= merged.dropped
    if complete and own is not None:
        _complain_of_unused(own, root, problems)
    merged = merge(root, read_overrides(overrides, problems))
    tree = replace(merged.tree, place=Place(shown))
    return Composed(resolve_references(tree, problems), dropped | dict(merged.dropped), complete)


def _preset_layers(own: Node, problems: list[Diagnostic]) -> tuple[list[Node], bool]:
    listed = own.get("presets")
    if listed is None:
        return [], True
    if listed.refused:
        return [], False
    if not isinstance(listed.content, tuple):
        _say(listed, "`presets` must be a list of names such as `model/qwen3-8b`", problems)
        return [], False
    if len(listed.content) > MAX_PRESETS:
        _say(listed, f"{len(listed.content)} presets", problems, f"at most {MAX_PRESETS}; the kinds are about a dozen")
        return [], False
    layers: list[Node] = []
    seen: dict[str, Place] = {}
    for item in listed.content:
        if item.refused:
            continue
        if not isinstance(item.content, str):
            _say(item, f"a preset is a name such as `model/qwen3-8b`, found {item.plain()}", problems)
            continue
        if item.content in seen:
            _say(item, f"preset `{item.content}` is listed twice, first at {seen[item.content].where}", problems)
            continue
        seen[item.content] = item.place
        layer = _read_preset(item, problems)
        if layer is not None:
            layers.append(layer)
    return layers, len(layers) == len(listed.content)


def _read_preset(item: Node, problems: list[Diagnostic]) -> Node | None:
    name = item.content
    known = preset_names()
    if name not in known:
        near = get_close_matches(name.removesuffix(".yaml"), known, n=1)
        near = near or [other for other in known if other.endswith(f"/{name}")]
        _say(item, f"no preset `{name}`", problems, f"did you mean `{near[0]}`?" if near else _choices(name, known))
        return None
    layer = read_file(presets_dir() / f"{name}.yaml", Layer(name, f"presets/{name}.yaml"), problems)
    if layer is not None and (nested := layer.get("presets")) is not None:
        _say(nested, "a preset may not list presets", problems, "list them in the experiment file")
        return None
    return layer


def _choices(name: str, known: list[str]) -> str:
    same_kind = [other for other in known if other.startswith(f"{name.partition('/')[0]}/")]
    kinds = sorted({other.partition("/")[0] for other in known})
    return f"there are: {', '.join(same_kind)}" if same_kind else f"kinds of presets: {', '.join(kinds)}"


def _complain_of_unused(own: Node, tree: Node, problems: list[Diagnostic]) -> None:
    listed = own.get("presets")
    used = set(tree.layers())
    for item in listed.content if listed is not None else ():
        if item.content not in used:
            message = f"preset `{item.content}` has no effect: later layers replace everything that it gives"
            _say(item, message, problems, "remove it from the list")


def _say(node: Node, message: str, problems: list[Diagnostic], hint: str = "") -> None:
    problems.append(Diagnostic(message, node.place.exact, node.place.source_line, hint))
