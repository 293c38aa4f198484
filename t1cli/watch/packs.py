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
from t1cli.watch import verbatim
from t1cli.watch.rule import Pack

MAX_BYTES = 1 << 20
_LOCATED = 100
"""Problems of one file whose line is looked for."""


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
    found = parsed(verbatim.quoted(text) if re.search(r"^early_stop:", text, re.MULTILINE) else text, where)
    if isinstance(found, list):
        found = {"rules": found}
    if not isinstance(found, dict):
        raise BadInput("expected a pack: about, rules, diagnoses", where=where)
    if "early_stop" in found:
        found = verbatim.as_pack(found, where)
    return pack_from(found, where, text)


def pack_from(found: Mapping[str, Any], where: str, text: str = "") -> Pack:
    """A pack from plain data. Raises BadInput with every problem at once."""
    try:
        return Pack.model_validate(found)
    except ValidationError as error:
        raise refusal(error, where, text) from error


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


def refusal(error: ValidationError, where: str, text: str) -> BadInput:
    """All of pydantic's problems with a YAML text as one error, each at the line of the deepest key the text has."""
    root = _composed(text)
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    # A search for each of a hundred thousand lines would never end; no more than the first are shown anyway.
    located = [_located(problem, where, root if at < _LOCATED else None) for at, problem in enumerate(problems)]
    return BadInput.many(tuple(located))


def _located(problem: Any, where: str, root: yaml.Node | None) -> Diagnostic:
    place = ".".join(map(str, problem["loc"]))
    line = _line_of(problem["loc"], root)
    return Diagnostic(f"{place}: {problem['msg']}" if place else problem["msg"], f"{where}:{line}" if line else where)


def _composed(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text)
    except (yaml.YAMLError, RecursionError):
        return None


def _line_of(loc: Sequence[str | int], node: yaml.Node | None) -> int | None:
    """The line of the deepest part of a path that the file has."""
    for part in loc:
        inner = _child(node, part)
        if inner is None:
            break
        node = inner
    return node.start_mark.line + 1 if node is not None else None


def _child(node: yaml.Node | None, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child: yaml.Node = node.value[part]
        return child
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if getattr(key, "value", None) == str(part)), None)
    return None
