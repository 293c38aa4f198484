"""The `watch` block of a spec, read as the watch itself will read it: a typo is said before the run, not during it."""

from __future__ import annotations

from dataclasses import replace

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.load import LoadedSpec
from t1cli.watch.packs import load_packs, pack_from


def check_watch_block(loaded: LoadedSpec) -> None:
    """Raises BadInput, located in the spec, for packs that cannot be read and rules that are none."""
    problems: list[Diagnostic] = []
    for number, name in enumerate(loaded.spec.watch.packs):
        try:
            load_packs([name])
        except BadInput as error:
            problems += [_located(one, loaded.where(f"watch.packs.{number}")) for one in error.diagnostics]
    for number, rule in enumerate(loaded.spec.watch.rules):
        where = loaded.where(f"watch.rules.{number}")
        try:
            pack_from({"rules": [rule]}, where)
        except BadInput as error:
            problems += [replace(one, where=where) for one in error.diagnostics]
    if problems:
        raise BadInput.many(tuple(problems))


def _located(problem: Diagnostic, where: str) -> Diagnostic:
    """A pack's own fault keeps its place; one that is not found is the spec's."""
    return problem if problem.where else replace(problem, where=where)
