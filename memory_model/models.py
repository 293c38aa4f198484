"""Architectures by public name (`data/models.json`), or from a Hugging Face `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from memory_model.architecture import Architecture, GatedDeltaNet, MultiLatentAttention, Vision

_TABLE = Path(__file__).parent / "data" / "models.json"


def known_models() -> tuple[str, ...]:
    """Names that `model` accepts."""
    return tuple(_table())


@lru_cache(maxsize=256)
def model(name: str) -> Architecture:
    """The architecture of a model of the table; KeyError names what is known."""
    return architecture_from(raw_model(name))


def raw_model(name: str) -> dict[str, Any]:
    """The table's entry for a model, as a mapping that can be changed and given to `architecture_from`."""
    table = _table()
    if name not in table:
        raise KeyError(f"unknown model {name!r}; known: {', '.join(table)}")
    return dict(table[name])


def architecture_from(values: Mapping[str, Any]) -> Architecture:
    """An architecture from a mapping in this package's field names; unknown keys other than `source` are errors."""
    parts = {"gated_deltanet": GatedDeltaNet, "mla": MultiLatentAttention, "vision": Vision}
    known = {field.name for field in fields(Architecture)}
    if unknown := set(values) - known - {"source"}:
        raise ValueError(f"unknown architecture keys {sorted(unknown)}; known: {sorted(known)}")
    given = {key: value for key, value in values.items() if key != "source"}
    for key, build in parts.items():
        if isinstance(given.get(key), Mapping):
            given[key] = build(**given[key])
    return Architecture(**given)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return loaded
