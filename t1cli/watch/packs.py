"""Reading rule packs: shipped ones by name, a person's own by path; as a pack, or as a printed `early_stop:` block."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.locate import presets_dir
from t1cli.spec.node import Node
from t1cli.watch import verbatim
from t1cli.watch.faults import plain_tree, refusal, tree_of
from t1cli.watch.rule import Pack

MAX_BYTES = 1 << 20


def load_packs(names: Sequence[str]) -> tuple[Pack, ...]:
    """Packs by shipped name or path to a YAML file, in order. Raises BadInput with every problem at once."""
    problems: list[Diagnostic] = []
    packs: list[Pack] = []
    for name in names:
        try:
            path = pack_path(name)
            packs.append(pack_of(yaml_text(path), str(path)))
        except BadInput as error:
            problems += error.diagnostics
    if problems:
        raise BadInput.many(tuple(problems))
    return tuple(packs)


def shipped_packs() -> tuple[str, ...]:
    """Names of the packs that come with t1."""
    return tuple(sorted(path.stem for path in (presets_dir() / "watch").glob("*.yaml")))


def pack_path(name: str) -> Path:
    """Where a pack is. Raises BadInput with the shipped names."""
    shipped = presets_dir() / "watch" / f"{name}.yaml"
    if name in shipped_packs():
        return shipped
    path = Path(name)
    if path.is_file():
        return path
    raise BadInput(
        f"no rule pack {name!r}", hint="shipped packs: " + ", ".join(shipped_packs()) + "; or a path to a YAML file"
    )


def pack_of(text: str, where: str) -> Pack:
    """A pack from its text. Raises BadInput with file and line where they are known."""
    printed = re.search(r"^early_stop:", text, re.MULTILINE) is not None
    found = parsed(verbatim.quoted(text) if printed else text, where)
    if isinstance(found, list):
        found = {"rules": found}
    if not isinstance(found, dict):
        raise BadInput("expected a pack: about, rules, diagnoses", where=where)
    if "early_stop" in found:
        return pack_from(verbatim.as_pack(found, where), where)
    return pack_from(found, where, pack_tree(text, where, found))


def pack_from(found: Mapping[str, Any], where: str, tree: Node | None = None) -> Pack:
    """A pack from plain data, with the tree that knows its lines. Raises BadInput with every problem at once."""
    try:
        return Pack.model_validate(found)
    except ValidationError as error:
        raise refusal(error, Pack, tree or plain_tree(found, where)) from error


def pack_tree(text: str, where: str, found: Mapping[str, Any]) -> Node:
    """A pack's text with its lines; a bare list is its rules. Raises BadInput for a key that stands twice."""
    tree = tree_of(text, where, found)
    return Node({"rules": tree}, tree.place) if isinstance(tree.content, tuple) else tree


def rule_places(path: Path) -> dict[str, str]:
    """`file:line` of every rule of a pack by its name; none of those that a printed `early_stop:` block stands for."""
    text = yaml_text(path)
    found = yaml.safe_load(text) if "early_stop:" not in text else {}
    rules = pack_tree(text, str(path), {"rules": found} if isinstance(found, list) else found).get("rules")
    entries = rules.content if rules is not None and isinstance(rules.content, tuple) else ()
    named = [(entry.get("name"), entry.place.where) for entry in entries]
    return {str(name.content): where for name, where in named if name is not None}


def yaml_text(path: Path) -> str:
    """Text of a file of rules or of their tests. Raises BadInput when it cannot be read, or is above MAX_BYTES."""
    if not path.is_file():  # a pipe would be waited for
        raise BadInput(f"no file {path}", str(path), "expected a YAML file in UTF-8")
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise BadInput(f"{path} has more than {MAX_BYTES:,} bytes", str(path), "rules are a few thousand bytes")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}", str(path), "expected a YAML file in UTF-8") from error


def parsed(text: str, where: str) -> Any:
    """Plain data of a YAML text. Raises BadInput with its line."""
    try:
        return yaml.safe_load(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not YAML: {error}", where=where) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f"{where}:{mark.line + 1}" if mark is not None else where
        raise BadInput(f"not YAML: {getattr(error, 'problem', error)}", where=at) from error
