"""`--set a.b=c`: command-line values as one more layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from t1cli.errors import Diagnostic
from t1cli.spec.merge import merge
from t1cli.spec.node import Node, Place
from t1cli.spec.yaml_reader import read_value

SET = "--set"
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_/-]*(\.[A-Za-z0-9_][A-Za-z0-9_/-]*)*")
_FORM = "write --set block.key=value, for example --set rollout.batch_size=256"


def read_overrides(overrides: Sequence[str], problems: list[Diagnostic]) -> Node:
    """All `--set` values as one tree; of two values for the same key the later one wins and remembers the other."""
    root = Node({}, Place(SET), SET)
    for text in overrides:
        single = _read_one(text, problems)
        if single is not None:
            root = merge(root, single).tree
    return root


def _read_one(text: str, problems: list[Diagnostic]) -> Node | None:
    place = Place(SET, source_line=f"{SET} {text}")
    key, equals, written = text.partition("=")
    if not equals:
        problems.append(Diagnostic(f"`{text}` has no `=`", SET, place.source_line, _FORM))
        return None
    if not _KEY.fullmatch(key):
        problems.append(Diagnostic(f"`{key}` is no dotted key", SET, place.source_line, _FORM))
        return None
    if key == "presets":
        problems.append(Diagnostic("presets are listed in the file alone", SET, place.source_line, "edit `presets:`"))
        return None
    node = _value(key, written, place, problems) or Node(None, place, SET, refused=True)
    for part in reversed(key.split(".")):
        node = Node({part: replace(node, place=place)}, place, SET)
    return node


def _value(key: str, written: str, place: Place, problems: list[Diagnostic]) -> Node | None:
    if written.strip():
        return read_value(written, place, problems)
    hint = f"write {key}=null for no value, or {key}='\"\"' for an empty text"
    problems.append(Diagnostic(f"`{key}` is given no value", SET, place.source_line, hint))
    return None
