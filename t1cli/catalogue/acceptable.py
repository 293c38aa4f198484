"""What `--accept` may name: rows, checks, findings outside the catalogue, and the launch's own refusals."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

import t1cli
from t1cli.catalogue.entry import entries
from t1cli.errors import BadInput, Diagnostic
from t1cli.preflight.checks import ALL_CHECKS

_OF_LAUNCH: Final = ("OOM", "engine", "job")
_OUTSIDE: Final = re.compile(r"\"(T-[a-z]+)\"")
"""IDs of findings outside the catalogue, as the code that makes them writes them."""


def refuse_unknown(accepted: Collection[str]) -> None:
    """Raises BadInput for IDs under which nothing can ever refuse, with near names."""
    unknown = [id_ for id_ in accepted if id_ not in acceptable_ids()]
    if unknown:
        raise BadInput.many(
            tuple(Diagnostic(f"nothing refuses under {id_!r}", "--accept", hint=_near(id_)) for id_ in unknown)
        )


@cache
def acceptable_ids() -> frozenset[str]:
    """Every ID that a refusal may carry."""
    checks = [check.id for check in ALL_CHECKS]
    return frozenset((*entries(), *checks, *_OF_LAUNCH, *_findings_outside()))


def _findings_outside() -> set[str]:
    root = Path(t1cli.__file__ or "").parent
    files = (path for room in ("plan", "slime", "launch") for path in (root / room).rglob("*.py"))
    return {id_ for path in files for id_ in _OUTSIDE.findall(path.read_text(encoding="utf-8"))}


def _near(id_: str) -> str:
    by_fold = {known.lower(): known for known in acceptable_ids()}
    close = [by_fold[fold] for fold in get_close_matches(id_.lower(), by_fold, n=3)]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return "the message of a refusal names its ID; `t1 explain` lists the catalogue"
