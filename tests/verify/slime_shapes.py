"""Whether a slime checkout still has what the patches were written for. Read as text; nothing of it is imported."""

from __future__ import annotations

import ast
from pathlib import Path

from t1cli.plugin.patches.shape import RELOADED_GROUPS, SHAPES, Shape


def changed_shapes(checkout: Path) -> list[str]:
    """Why patches would stay away, one text per place that is not as recorded."""
    found = ((shape, _problem(checkout, shape)) for shape in SHAPES)
    return [problem for shape, problem in found if problem and not _needless(checkout, shape)]


def _problem(checkout: Path, shape: Shape) -> str:
    source = checkout / (shape.module.replace(".", "/") + ".py")
    if not source.is_file():
        return f"{shape.module} is gone"
    text = source.read_text()
    function = _find(ast.parse(text), shape.name)
    if function is None:
        return f"{shape.module} has no {shape.name}"
    signature = _signature(function)
    if signature != shape.signature:
        return f"{shape.name}{signature} is not {shape.name}{shape.signature}"
    body = ast.get_source_segment(text, function) or ""
    missing = [mention for mention in shape.mentions if mention not in body]
    return f"{shape.name} no longer has `{missing[0]}`" if missing else ""


def _needless(checkout: Path, shape: Shape) -> bool:
    """v0.3.1 rebuilds groups with the arguments that they were made with, their limit among them."""
    if shape is not RELOADED_GROUPS:
        return False
    text = (checkout / (shape.module.replace(".", "/") + ".py")).read_text()
    made = _find(ast.parse(text), "ReloadableProcessGroup.__init__")
    return made is not None and "creation_kwargs" in _signature(made)


def _find(tree: ast.AST, dotted: str) -> ast.FunctionDef | None:
    found: ast.AST | None = tree
    for part in dotted.split("."):
        body = getattr(found, "body", [])
        found = next((node for node in body if getattr(node, "name", None) == part), None)
    return found if isinstance(found, ast.FunctionDef) else None


def _signature(function: ast.FunctionDef) -> str:
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    return f"({ast.unparse(arguments)})"
