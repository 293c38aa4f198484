"""Catchers that are code: findings, refusals, argument rules and alerts by the ID they are made with, and whatever says
`(catalogue ID)` in its docstring. The source is read, not imported: the plugin cannot be imported where slime is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import memory_model
import t1cli
from t1cli.catalogue.catcher import Catcher
from t1cli.catalogue.entry import STAGES, Stage, entries
from t1cli.catalogue.message import Bound, bound_names, message_text

_TAG: Final = re.compile(r"\(catalogue ((?:[A-Z]\d+(?:, )?)+)(?: at (\w+))?\)")
_WORTH_READING: Final = re.compile(r"\(catalogue [A-Z]\d|\"[A-Z]\d{1,2}\"")

# Longest beginning of a path decides where its code acts.
_STAGE_OF: Final[dict[str, Stage]] = {
    "memory_model": "plan",
    "t1cli/plan": "plan",
    "t1cli/slime/arguments": "plan",
    "t1cli/slime": "launch",
    "t1cli/preflight": "preflight",
    "t1cli/launch": "launch",
    "t1cli/run": "launch",
    "t1cli/cluster": "launch",
    "t1cli/terminal": "rollout",
    "t1cli/terminal/sandbox/pool": "pool",
    "t1cli/terminal/sandbox/pool/calls.py": "rollout",
    "t1cli/terminal/sandbox/pool/client.py": "rollout",
    "t1cli/terminal/sandbox/pool/older.py": "rollout",
    "t1cli/terminal/sandbox/pool/older_line.py": "rollout",
    "t1cli/terminal/sandbox/pool/remote.py": "rollout",
    "t1cli/plugin": "train",
    "t1cli/plugin/generate.py": "rollout",
    "t1cli/plugin/rollout.py": "rollout",
    "t1cli/plugin/trial_worker.py": "rollout",
    "t1cli/embedded": "train",
    "t1cli/watch": "watch",
    "t1cli/report": "report",
}


class _Maker(NamedTuple):
    """A call that makes something with an ID: what it is, and where its text and its fix stand in the call."""

    kind: str
    says: int
    fix: int


_MAKERS: Final = {
    "finding": _Maker("finding", 99, 99),
    "Waste": _Maker("finding", 2, 99),
    "Refusal": _Maker("refusal", 1, 3),
    "Rule": _Maker("argument rule", 4, 5),
    "Problem": _Maker("argument rule", 3, 4),
    "_error": _Maker("argument rule", 1, 2),
    "Alert": _Maker("alert", 6, 7),
}


@cache
def code_catchers() -> tuple[Catcher, ...]:
    """Every catcher that is found by reading the source of t1cli and memory_model."""
    roots = [Path(package.__file__ or "").parent for package in (t1cli, memory_model)]
    return tuple(catcher for root in roots for path in sorted(root.rglob("*.py")) for catcher in scan_file(root, path))


def scan_file(root: Path, path: Path) -> Iterator[Catcher]:
    """What one file of the package at `root` says it catches."""
    text = path.read_text(encoding="utf-8")
    where = path.relative_to(root.parent).as_posix()
    if not _WORTH_READING.search(text) or where.startswith("t1cli/catalogue/"):
        return
    tree = ast.parse(text)
    yield from _tagged(tree, where, path.stem)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _made(function, where, f"{path.stem}.{function.name}")
    yield from _made_in_tables(tree, where, path.stem)


def _made(function: ast.FunctionDef | ast.AsyncFunctionDef, where: str, name: str) -> Iterator[Catcher]:
    bound = bound_names(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield from _of_call(node, bound, where, name)


def _made_in_tables(tree: ast.Module, where: str, name: str) -> Iterator[Catcher]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Call):
                    yield from _of_call(node, {}, where, name)


def _of_call(call: ast.Call, bound: Bound, where: str, name: str) -> Iterator[Catcher]:
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    maker = _MAKERS.get(function)
    if maker is None:
        return
    says = message_text(_argument(call, maker.says, "message"), bound)
    fix = message_text(_argument(call, maker.fix, "fix"), bound)
    for id_ in _ids(call):
        yield Catcher(id_, stage_of(where), maker.kind, name, where, (says,) if says else (), fix)


def _argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    given = {item.arg: item.value for item in call.keywords}
    return given.get(keyword) or (call.args[position] if position < len(call.args) else None)


def _ids(call: ast.Call) -> list[str]:
    """Catalogue IDs among the literals that a call is given directly, in a choice, or in a tuple."""
    found: list[str] = []
    for argument in call.args:
        parts = argument.elts if isinstance(argument, ast.Tuple) else [argument]
        for part in parts:
            choices = [part.body, part.orelse] if isinstance(part, ast.IfExp) else [part]
            found += [str(c.value) for c in choices if isinstance(c, ast.Constant) and c.value in entries()]
    return found


def _tagged(tree: ast.Module, where: str, stem: str) -> Iterator[Catcher]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        says = ast.get_docstring(node) or ""
        name = stem if isinstance(node, ast.Module) else f"{stem}.{node.name}"
        for tag in _TAG.finditer(says):
            named = next((stage for stage in STAGES if stage == tag[2]), None)
            stage = named or stage_of(where)
            first = _TAG.sub("", says.split("\n\n")[0]).replace("\n", " ")
            text = re.sub(r"\s+([.,:;])", r"\1", " ".join(first.split()))
            for id_ in tag[1].split(", "):
                yield Catcher(id_, stage, "code", name, where, (text,))


def stage_of(where: str) -> Stage:
    """The stage in which the code of a file acts."""
    beginnings = [start for start in _STAGE_OF if where.startswith(start)]
    assert beginnings, f"{where} names a row of the catalogue, and no stage is known for it"
    return _STAGE_OF[max(beginnings, key=len)]
