"""What CONTRIBUTING.md promises of the code's shape is so: limits on sizes, and a row and a page for every room."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRIBUTING = re.sub(r"\s+", " ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
FILES = sorted(path for room in ("t1cli", "memory_model") for path in (ROOT / room).rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


def limit(words: str) -> int:
    """A number of CONTRIBUTING.md by the words around it, of which `#` is the number."""
    found = re.search(re.escape(words).replace(r"\#", r"(\d+)"), CONTRIBUTING)
    assert found, words
    return int(found[1])


def functions() -> Iterator[tuple[str, Function]]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_no_module_is_longer_than_the_limit() -> None:
    most = limit("no module has more than # lines")
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {path: length for path, length in lengths.items() if length > most} == {}


def test_no_function_is_longer_than_the_limit() -> None:
    most = limit("no function more than # lines")
    lengths = {name: (node.end_lineno or node.lineno) - node.lineno + 1 for name, node in functions()}
    assert {name: length for name, length in lengths.items() if length > most} == {}


def test_no_function_has_more_parameters_than_the_limit() -> None:
    most = limit("no function more than # parameters")
    counts = {name: len(parameters(node)) for name, node in functions() if not name.startswith("t1cli/cli/")}
    assert {name: count for name, count in counts.items() if count > most} == {}


def parameters(function: Function) -> list[str]:
    """Of a method, its own object is none."""
    given = function.args
    return [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs) if a.arg not in ("self", "cls")]


def test_every_room_has_a_row_and_a_page() -> None:
    rooms = {path.parent.name for path in (ROOT / "t1cli").glob("*/__init__.py")}
    leaves = {path.name for path in (ROOT / "t1cli").glob("*.py")} - {"__init__.py"}
    table = CONTRIBUTING.partition("| room |")[2].partition("A page for each room")[0]
    named = set(re.findall(r"`(?:t1cli/)?([\w.]+)`", table))
    assert rooms | leaves | {"memory_model"} <= named
    assert set(re.findall(r"`t1cli/(\w+)`", table)) <= rooms
    pages = {path.stem for path in (ROOT / "docs" / "contributing").glob("*.md")}
    assert {room.replace("_", "-") for room in rooms | {"memory_model"}} <= pages
