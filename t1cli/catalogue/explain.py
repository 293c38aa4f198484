"""`t1 explain`: rows by ID, or by the name of whatever told them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Final

from t1cli.catalogue.catcher import Catcher
from t1cli.catalogue.catchers import catchers
from t1cli.catalogue.entry import Entry, entries
from t1cli.catalogue.proofs import proofs
from t1cli.errors import BadInput, Diagnostic
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.fields import all_keys
from t1cli.watch.packs import load_packs, shipped_packs

FORMAT_VERSION: Final = 1
_NAMED: Final = ("check", "rule", "diagnosis", "log signature")
"""Kinds of catchers whose names people see."""


@dataclass(frozen=True)
class Explained:
    """A row with who catches it and which tests prove that."""

    entry: Entry
    catchers: tuple[Catcher, ...]
    tests: tuple[str, ...]


def explain(names: Sequence[str]) -> tuple[Explained, ...]:
    """The rows behind IDs, checks, rules, diagnoses or log signatures, each once. BadInput names all that are none."""
    ids: list[str] = []
    problems: list[Diagnostic] = []
    for name in names:
        found = _ids_of(name)
        ids += found
        if not found:
            problems.append(Diagnostic(f"no failure mode {name!r}", hint=_hint(name)))
    if problems:
        raise BadInput.many(tuple(problems))
    return tuple(explained(id_) for id_ in dict.fromkeys(ids))


def explained(id_: str) -> Explained:
    """One row with everything that is known of it."""
    return Explained(entries()[id_], catchers().get(id_, ()), proofs().get(id_, ()))


def to_json(found: Sequence[Explained]) -> dict[str, Any]:
    """One JSON object with `format_version` first."""
    rows = [
        {
            **item.entry.model_dump(mode="json"),
            "catchers": [asdict(c) for c in item.catchers],
            "tests": list(item.tests),
        }
        for item in found
    ]
    return {"format_version": FORMAT_VERSION, "failure_modes": rows}


def _ids_of(name: str) -> list[str]:
    if name.upper() in entries():
        return [name.upper()]
    return [id_ for id_ in entries() if any(c.name == name for c in catchers().get(id_, ()) if c.kind in _NAMED)]


def _hint(name: str) -> str:
    if name.startswith("T-"):
        return f"{name} stands outside the catalogue: its finding says all there is, see `t1 plan SPEC`"
    if own := _own_words(name):
        return f"{name} belongs to no row of the catalogue; it says: {own}"
    if any(key == name or key.startswith(f"{name}.") for key, _ in all_keys(ExperimentSpec)):
        return f"that is a key of a spec: `t1 plan SPEC --explain {name}` shows where its value came from"
    near = get_close_matches(name.upper(), entries(), n=3) + get_close_matches(name, _names(), n=3)
    if near:
        return "did you mean " + " or ".join(f"`{other}`" for other in near[:3]) + "?"
    return "`t1 explain` lists every failure mode"


def _own_words(name: str) -> str:
    """What a check, a shipped rule or a shipped diagnosis says of itself; empty for other names."""
    said = {check.id: check.question for check in ALL_CHECKS}
    for pack in load_packs(shipped_packs()):
        said |= {rule.name: "; ".join(filter(None, (rule.says, rule.advice))) for rule in pack.rules}
        said |= {diagnosis.name: diagnosis.advice for diagnosis in pack.diagnoses}
    return said.get(name, "")


def _names() -> Mapping[str, None]:
    return {c.name: None for these in catchers().values() for c in these if c.kind in _NAMED}
