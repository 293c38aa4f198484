"""Who catches what: the tables of checks, rules, diagnoses and signatures, and the code itself."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache

from t1cli.catalogue.catcher import Catcher
from t1cli.catalogue.entry import STAGES
from t1cli.catalogue.message import bound_names, message_text
from t1cli.catalogue.source_scan import code_catchers
from t1cli.preflight.check import Check
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.watch.logs.signatures import signatures
from t1cli.watch.packs import load_packs, shipped_packs
from t1cli.watch.rule import Pack

_ANSWERS = ("failed", "warned")


@cache
def catchers() -> Mapping[str, tuple[Catcher, ...]]:
    """Every catcher by the row it catches, earliest stage first. A name that several packs share is one catcher."""
    found: dict[str, dict[tuple[str, str, str], Catcher]] = {}
    for catcher in (*code_catchers(), *_checks(), *_packs(), *_signatures()):
        same = found.setdefault(catcher.id, {})
        key = (catcher.stage, catcher.kind, catcher.name)
        same[key] = _joined(same[key], catcher) if key in same else catcher
    return {id_: tuple(sorted(these.values(), key=_order)) for id_, these in found.items()}


def _joined(one: Catcher, other: Catcher) -> Catcher:
    says = tuple(dict.fromkeys((*one.says, *other.says)))
    return Catcher(one.id, one.stage, one.kind, one.name, one.where, says, one.fix or other.fix)


def _order(catcher: Catcher) -> tuple[int, str, str]:
    return STAGES.index(catcher.stage), catcher.kind, catcher.name


def _checks() -> Iterator[Catcher]:
    for check in ALL_CHECKS:
        module = inspect.getmodule(inspect.unwrap(check.run))
        where = (module.__name__ if module else "t1cli.preflight").replace(".", "/") + ".py"
        for id_ in check.catalogue:
            yield Catcher(id_, "preflight", "check", check.id, where, _answers(check))


def _answers(check: Check) -> tuple[str, ...]:
    """What a check says when it is not satisfied: what it found, what is wanted, and the fix."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(check.run))))
    except (OSError, TypeError, SyntaxError):
        return ()
    bound, said = bound_names(tree), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ANSWERS and len(node.args) == 3:
            found, wanted, fix = (message_text(argument, bound) for argument in node.args)
            said.append(f"{found}; wanted: {wanted}; fix: {fix}")
    return tuple(dict.fromkeys(said))


def _packs() -> Iterator[Catcher]:
    for name in shipped_packs():
        (pack,) = load_packs([name])
        yield from _of_pack(pack, f"presets/watch/{name}.yaml")


def _of_pack(pack: Pack, where: str) -> Iterator[Catcher]:
    for rule in pack.rules:
        for id_ in rule.catalogue:
            yield Catcher(id_, "watch", "rule", rule.name, where, (f"{rule.severity}: {rule.says}",), rule.advice)
    for diagnosis in pack.diagnoses:
        for id_ in diagnosis.catalogue:
            yield Catcher(id_, "watch", "diagnosis", diagnosis.name, where, (), diagnosis.advice)


def _signatures() -> Iterator[Catcher]:
    where = "t1cli/watch/logs/signatures.yaml"
    for signature in signatures():
        for id_ in signature.catalogue:
            yield Catcher(id_, "watch", "log signature", signature.name, where, (signature.example,))
