"""Presets left to right, then the file, then `--set`: one tree. The only user of OmegaConf."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from t1cli.errors import Diagnostic
from t1cli.spec.locate import preset_names, presets_dir, shown_path
from t1cli.spec.merge import merge
from t1cli.spec.node import Node, Origin, Place
from t1cli.spec.overrides import read_overrides
from t1cli.spec.yaml_reader import Layer, read_file

EXPERIMENT = "experiment"


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
    return Composed(_interpolate(tree, problems), dropped | dict(merged.dropped), complete)


def _preset_layers(own: Node, problems: list[Diagnostic]) -> tuple[list[Node], bool]:
    listed = own.get("presets")
    if listed is None:
        return [], True
    if not isinstance(listed.content, tuple):
        _say(listed, "`presets` must be a list of names such as `model/qwen3-8b`", problems)
        return [], False
    layers: list[Node] = []
    seen: dict[str, Place] = {}
    for item in listed.content:
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


def _interpolate(tree: Node, problems: list[Diagnostic]) -> Node:
    """`${a.b}` becomes the value under that key. Nothing is read from outside the spec."""
    if not _mentions_reference(tree):
        return tree
    from omegaconf import OmegaConf

    return _resolved(tree, OmegaConf.create(tree.plain()), problems)


def _mentions_reference(node: Node) -> bool:
    if isinstance(node.content, dict):
        return any(_mentions_reference(child) for child in node.content.values())
    if isinstance(node.content, tuple):
        return any(_mentions_reference(child) for child in node.content)
    return isinstance(node.content, str) and "${" in node.content


def _resolved(node: Node, config: Any, problems: list[Diagnostic]) -> Node:
    if isinstance(node.content, dict):
        content: Any = {key: _child(child, config, key, problems) for key, child in node.content.items()}
    elif isinstance(node.content, tuple):
        content = tuple(_child(child, config, index, problems) for index, child in enumerate(node.content))
    else:
        return node
    return replace(node, content=content)


def _child(node: Node, config: Any, key: str | int, problems: list[Diagnostic]) -> Node:
    if not isinstance(node.content, str):
        return _resolved(node, config[key], problems) if isinstance(node.content, dict | tuple) else node
    return _look_up(node, config, key, problems) if "${" in node.content else node


def _look_up(node: Node, config: Any, key: str | int, problems: list[Diagnostic]) -> Node:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if re.search(r"\$\{[^}]*:", node.content):
        hint = 'only `${block.key}` is read; hand outside values in with --set block.key="$VALUE"'
        _say(node, f"`{node.content}` asks for something outside the spec", problems, hint)
        return node
    try:
        value = config[key]
        value = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except (OmegaConfBaseException, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it refers to itself"
        _say(node, f"cannot resolve `{node.content}`: {reason}", problems)
        return node
    return _as_node(value, node)


def _as_node(value: Any, model: Node) -> Node:
    if isinstance(value, dict):
        return replace(model, content={str(key): _as_node(child, model) for key, child in value.items()}, text="")
    if isinstance(value, list):
        return replace(model, content=tuple(_as_node(child, model) for child in value), text="")
    return replace(model, content=value, text="")
