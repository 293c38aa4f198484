"""Safe arithmetic over a step's metrics and the spec's variables: a closed list of names and calls."""

from __future__ import annotations

import ast
import fnmatch
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from t1cli.errors import BadInput

VARIABLES = ("rollout_batch_size", "n_samples_per_prompt", "samples_per_rollout", "fallback_max_share")
"""Variables that a run's spec gives; a bare file gives none, so what needs one has no verdict until it is set."""

FUNCTIONS = {
    "m": 'm("name"): the value at this step',
    "last": 'last("name"): the newest value up to this step',
    "sum": 'sum("glob"): sum over the names that match; 0 when none does',
    "mean": 'mean("glob", without="glob"): mean over the names that match',
    "count": 'count("glob"): how many names match',
    "seconds": "seconds(): since the step before",
    "abs": "abs(x)",
    "min": "min(x, y)",
    "max": "max(x, y)",
}


class Absent(Exception):
    """A metric or variable that the expression needs is not there."""


@dataclass(frozen=True)
class Context:
    """What an expression may look at."""

    variables: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    """Metrics of this step."""
    latest: Callable[[str], float | None] = lambda name: None
    seconds: float | None = None


_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARE: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


@lru_cache(maxsize=512)
def parse(text: str) -> ast.expr:
    """The checked tree of an expression. Raises BadInput that names what is not allowed."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise BadInput(f"cannot read the expression {text!r}: {error.msg}", hint=_hint()) from error
    for node in ast.walk(tree):
        problem = _problem(node)
        if problem:
            raise BadInput(f"cannot read the expression {text!r}: {problem}", hint=_hint())
    return tree


def variables_of(text: str) -> set[str]:
    """Variables that an expression names."""
    called = {node.func for node in ast.walk(parse(text)) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name) and node not in called}


def evaluate(text: str, context: Context) -> float:
    """The value. Raises Absent where something it needs is missing, or where it divides by zero."""
    return _value(parse(text), context)


def _hint() -> str:
    return "numbers, + - * / and comparisons; " + "; ".join(FUNCTIONS.values()) + "; variables: " + ", ".join(VARIABLES)


def _problem(node: ast.AST) -> str:
    allowed = (ast.BinOp, ast.UnaryOp, ast.USub, ast.UAdd, ast.Constant, ast.Name, ast.Load, ast.Call, ast.Compare,
               ast.keyword, *_BINARY, *_COMPARE)  # fmt: skip
    if not isinstance(node, allowed):
        return f"{type(node).__name__} is not allowed"
    if isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str):
        return f"{node.value!r} is neither a number nor a name"
    if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
        return f"there is no function {ast.unparse(node.func)}"
    if isinstance(node, ast.keyword) and not (node.arg == "without" and isinstance(node.value, ast.Constant)):
        return f"there is no option {node.arg}"
    if isinstance(node, ast.Compare) and len(node.ops) != 1:
        return "chained comparisons are not allowed"
    return ""


def _value(node: ast.expr, context: Context) -> float:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            raise BadInput(f"text {node.value!r} outside a function", hint=_hint())
        assert isinstance(node.value, int | float)
        return float(node.value)
    if isinstance(node, ast.Name):
        if node.id not in context.variables:
            raise Absent(f"{node.id} is not known")
        return context.variables[node.id]
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, context)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, context), _value(node.right, context)
        if isinstance(node.op, ast.Div) and right == 0:
            raise Absent("division by zero")
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Compare):
        return float(_COMPARE[type(node.ops[0])](_value(node.left, context), _value(node.comparators[0], context)))
    assert isinstance(node, ast.Call)
    return _call(node, context)


def _call(node: ast.Call, context: Context) -> float:
    assert isinstance(node.func, ast.Name)
    match node.func.id:
        case "m" | "last":
            (name,) = _texts(node)
            found = context.values.get(name) if node.func.id == "m" else context.latest(name)
            if found is None:
                raise Absent(f"{name} is not there")
            return found
        case "sum" | "mean" | "count":
            return _over_glob(node, context)
        case "seconds":
            if not context.seconds:
                raise Absent("no clock")
            return context.seconds
        case "abs":
            return abs(_value(node.args[0], context))
        case "min":
            return min(_value(argument, context) for argument in node.args)
        case _:
            return max(_value(argument, context) for argument in node.args)


def _over_glob(node: ast.Call, context: Context) -> float:
    assert isinstance(node.func, ast.Name)
    without = next((k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)), "")
    found = [
        value
        for name, value in context.values.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in _texts(node))
        and not (without and fnmatch.fnmatchcase(name, str(without)))
    ]
    if node.func.id == "count":
        return float(len(found))
    if node.func.id == "sum":
        return math.fsum(found)
    if not found:
        raise Absent(f"nothing matches {' '.join(_texts(node))}")
    return math.fsum(found) / len(found)


def _texts(node: ast.Call) -> list[str]:
    texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise BadInput(f"{ast.unparse(node)}: expected metric names in quotes", hint=_hint())
    return [str(text) for text in texts]
