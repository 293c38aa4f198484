"""The checks in a task's Python tests, read and not run: what each asserts, and the literals that it demands."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

_EXISTENCE = frozenset(
    ("exists", "lexists", "is_file", "isfile", "is_dir", "isdir", "is_directory", "is_absent", "is_symlink", "islink")
)
_SIZE = frozenset(("getsize", "st_size"))
_NO_DEMAND = frozenset(("encoding", "errors", "mode", "msg", "match", "reason"))
"""Arguments whose text says how to read, not what must be there."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = Mapping[str, ast.expr]


class Kind(Enum):
    """What an assertion can tell."""

    EMPTY = "empty"
    """It holds whatever the agent does."""
    EXISTENCE = "existence"
    """Something is there, or is not."""
    CONTENT = "content"
    """Anything more."""


@dataclass(frozen=True)
class Assertion:
    """One assertion of a check."""

    kind: Kind
    source: str
    strings: tuple[str, ...] = ()
    """Every text that it names, constants followed one step."""
    equals: tuple[str, ...] = ()
    """Texts that something is compared with as a whole."""
    optional: bool = False
    """It stands in a condition or in a `try` that swallows its failure, so it may never be asked."""


@dataclass(frozen=True)
class Check:
    """One test function."""

    name: str
    where: str
    """`tests/FILE:LINE`."""
    assertions: tuple[Assertion, ...]

    @property
    def is_empty(self) -> bool:
        return all(assertion.kind is Kind.EMPTY for assertion in self.assertions)

    @property
    def is_existence(self) -> bool:
        return not self.is_empty and all(assertion.kind is not Kind.CONTENT for assertion in self.assertions)


def checks_of(tests: Mapping[str, str]) -> tuple[Check, ...]:
    """Every test function of every Python file that pytest would collect; a file that is no Python has none."""
    found: list[Check] = []
    for name, text in tests.items():
        if name.endswith(".py"):
            found += _checks_in(name, text)
    return tuple(found)


def _checks_in(name: str, text: str) -> tuple[Check, ...]:
    try:
        return tuple(_File(name, text, ast.parse(text)).checks())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # nested too deep is unreadable too
        return ()


class _File:
    def __init__(self, name: str, text: str, tree: ast.Module) -> None:
        self._name, self._text, self._tree = name, text, tree
        self._constants = _assigned(tree.body)
        functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
        self._asserting = {node.name for node in functions if any(isinstance(n, _DEMAND) for n in ast.walk(node))}

    def checks(self) -> Iterator[Check]:
        for node in ast.walk(self._tree):
            if isinstance(node, _Function) and node.name.startswith("test"):
                scope = {**self._constants, **_assigned(list(ast.walk(node)))}
                found = tuple(self._assertions(node.body, scope, optional=False))
                yield Check(node.name, f"tests/{self._name}:{node.lineno}", found)

    def _assertions(self, body: list[ast.stmt], scope: _Scope, *, optional: bool) -> Iterator[Assertion]:
        for statement in body:
            if isinstance(statement, ast.Assert):
                yield self._assertion(statement.test, scope, optional)
            elif isinstance(statement, ast.If | ast.Try | ast.For | ast.While | ast.With):
                inner = optional or _may_skip(statement)
                for block in _blocks(statement):
                    yield from self._assertions(block, scope, optional=inner)
                if isinstance(statement, ast.With) and "raises" in ast.dump(statement.items[0]):
                    yield Assertion(Kind.CONTENT, self._source(statement.items[0].context_expr), optional=optional)
            elif isinstance(statement, ast.Raise):
                yield Assertion(Kind.CONTENT, self._source(statement), optional=False)
            elif call := self._demanding_call(statement):
                yield Assertion(Kind.CONTENT, self._source(call), _strings(call, scope), (), optional)

    def _assertion(self, test: ast.expr, scope: _Scope, optional: bool) -> Assertion:
        return Assertion(kind_of(test), self._source(test), _strings(test, scope), _equals(test, scope), optional)

    def _demanding_call(self, statement: ast.stmt) -> ast.Call | None:
        """A call that fails the check by itself: `self.assert…`, `pytest.fail`, a helper that asserts, `check=True`."""
        for node in ast.walk(statement) if isinstance(statement, ast.Expr | ast.Assign | ast.Return) else ():
            if isinstance(node, ast.Call):
                name = _called(node)
                checked = any(keyword.arg == "check" for keyword in node.keywords)
                if name.startswith("assert") or name in ("fail", "check_call", "check_output") or checked:
                    return node
                if name in self._asserting:
                    return node
        return None

    def _source(self, node: ast.AST) -> str:
        return ast.get_source_segment(self._text, node) or ""


_DEMAND = ast.Assert | ast.Raise


def kind_of(test: ast.expr) -> Kind:
    """What an asserted expression can tell."""
    match test:
        case ast.Constant():
            return Kind.EMPTY
        case ast.UnaryOp(operand=operand):
            return kind_of(operand)
        case ast.BoolOp(op=ast.Or(), values=values) if any(isinstance(v, ast.Constant) and v.value for v in values):
            return Kind.EMPTY
        case ast.BoolOp(values=values):
            kinds = {kind_of(value) for value in values}
            return next((kind for kind in (Kind.CONTENT, Kind.EXISTENCE) if kind in kinds), Kind.EMPTY)
        case ast.Compare(left=left, comparators=[right]) if isinstance(right, ast.Constant):
            return _compared(left, right)
        case ast.Compare(left=left, comparators=[right]) if ast.dump(left) == ast.dump(right):
            return Kind.EMPTY
        case ast.Call():
            return Kind.EXISTENCE if _called(test) in _EXISTENCE else Kind.CONTENT
    return Kind.CONTENT


def _compared(left: ast.expr, right: ast.Constant) -> Kind:
    if isinstance(left, ast.Constant):
        return Kind.EMPTY
    if isinstance(right.value, bool):
        return kind_of(left)
    name = _called(left) if isinstance(left, ast.Call) else left.attr if isinstance(left, ast.Attribute) else ""
    return Kind.EXISTENCE if name in _SIZE and right.value in (0, 1) else Kind.CONTENT


def _called(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _may_skip(statement: ast.stmt) -> bool:
    """Whether what stands inside may go unasked: a condition without an else, a `try` whose handler does nothing."""
    if isinstance(statement, ast.If):
        return not statement.orelse
    if isinstance(statement, ast.Try):
        return any(all(isinstance(inner, ast.Pass | ast.Return) for inner in h.body) for h in statement.handlers)
    return False


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])


def _assigned(nodes: list[ast.stmt] | list[ast.AST]) -> dict[str, ast.expr]:
    return {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }


def _strings(expression: ast.expr, scope: _Scope) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_walk_strings(expression, scope, depth=2)))


def _walk_strings(node: ast.AST, scope: _Scope, depth: int) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and depth and node.id in scope:
        yield from _walk_strings(scope[node.id], scope, depth - 1)
    elif not (isinstance(node, ast.keyword) and node.arg in _NO_DEMAND):
        for child in ast.iter_child_nodes(node):
            yield from _walk_strings(child, scope, depth)


def _equals(test: ast.expr, scope: _Scope) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq) for op in node.ops):
            for side in (node.left, *node.comparators):
                found += _whole(scope.get(side.id, side) if isinstance(side, ast.Name) else side)
    return tuple(found)


def _whole(side: ast.expr) -> list[str]:
    parts = side.elts if isinstance(side, ast.List | ast.Tuple) else [side]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
