"""Text files are UTF-8 wherever they are read and written: a C locale must not change what a file says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
POSITION = {"read_text": 0, "write_text": 1, "open": 2}
"""Where `encoding` may stand without its name, in pathlib's signatures."""

OF_A_FILE = {"mode", "buffering", "encoding", "errors", "newline"}


def test_every_text_file_is_opened_with_its_encoding() -> None:
    files = [*(ROOT / "t1cli").rglob("*.py"), *(ROOT / "memory_model").rglob("*.py")]
    assert [fault for path in sorted(files) for fault in _faults(path)] == []


def _faults(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and (name := _opener(node)) and not _says_encoding(node, name):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {name} without encoding"


def _opener(call: ast.Call) -> str:
    """Which way of opening a text file a call is; empty for anything else, as an archive's or a connection's `open`."""
    if isinstance(call.func, ast.Name):
        return "open" if call.func.id == "open" and not _is_binary(call) else ""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "open":
        mode = not call.args or (isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str))
        of_a_path = mode and {keyword.arg for keyword in call.keywords} <= OF_A_FILE
        return name if of_a_path and not _is_binary(call) else ""
    return name if name in POSITION else ""


def _says_encoding(call: ast.Call, name: str) -> bool:
    builtin = isinstance(call.func, ast.Name)
    return any(keyword.arg == "encoding" for keyword in call.keywords) or len(call.args) > POSITION[name] + builtin


def _is_binary(call: ast.Call) -> bool:
    words = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    modes = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return any(set(mode) <= set("rwxab+") and "b" in mode for mode in modes)
