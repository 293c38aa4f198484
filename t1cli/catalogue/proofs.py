"""Which tests prove that a row is caught: those marked `@pytest.mark.catalogue("ID")`, and unit tests of shipped rules.

Tests are part of a checkout; an installed wheel has the rule tests alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from t1cli.catalogue.catchers import catchers
from t1cli.spec.locate import data_root, presets_dir
from t1cli.watch.rule_tests import RuleTest, read_tests

_MARK: Final = "mark.catalogue("
_RULE_TESTS: Final = "presets/watch/tests"


@cache
def proofs() -> Mapping[str, tuple[str, ...]]:
    """Tests by the row that they prove, as `path::name`."""
    found: dict[str, list[str]] = {}
    for id_, test in (*_marked_tests(data_root() / "tests"), *_rule_tests()):
        found.setdefault(id_, []).append(test)
    return {id_: tuple(sorted(dict.fromkeys(tests))) for id_, tests in found.items()}


def _marked_tests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if _MARK not in text:
            continue
        where = path.relative_to(folder.parent).as_posix()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from ((id_, f"{where}::{node.name}") for mark in node.decorator_list for id_ in _ids(mark))


def _ids(mark: ast.expr) -> list[str]:
    if not isinstance(mark, ast.Call) or not ast.unparse(mark.func).endswith("mark.catalogue"):
        return []
    return [str(argument.value) for argument in mark.args if isinstance(argument, ast.Constant)]


def _rule_tests() -> Iterator[tuple[str, str]]:
    """A rule test proves the rows of every rule and diagnosis that it expects to speak up."""
    ids_of: dict[str, list[str]] = {}
    for id_, these in catchers().items():
        for catcher in these:
            if catcher.kind in ("rule", "diagnosis"):
                ids_of.setdefault(catcher.name, []).append(id_)
    for path in sorted((presets_dir() / "watch" / "tests").glob("*.yaml")):
        for test in read_tests(path).tests:
            for name in _spoken(test):
                yield from ((id_, f"{_RULE_TESTS}/{path.name}::{test.name}") for id_ in ids_of.get(name, ()))


def _spoken(test: RuleTest) -> list[str]:
    return [name for name, wanted in {**test.expect, **test.diagnoses}.items() if wanted != "never"]
