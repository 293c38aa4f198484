"""What differs between two plans: spec values old → new with their places, and the figures that moved."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from errno import ENOENT
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.plan.plan import FORMAT_VERSION, Plan
from t1cli.spec.load import LoadedSpec

# Keys that differ between any two plans without meaning anything.
IGNORED = ("format_version", "digest", "source", "title")
# Relative change of a figure below which two plans say the same.
SAME_FIGURE = 1e-6


MAX_BYTES = 16 * 1024 * 1024
"""A plan has some ten thousand; what follows is cut off, and is no JSON then."""


@dataclass(frozen=True)
class Change:
    """One key that differs; None where a side does not have it."""

    key: str
    old: Any
    new: Any
    where: str = ""
    """Where the new value comes from; empty for a computed figure."""


@dataclass(frozen=True)
class PlanDiff:
    """Everything that differs, values of the spec first."""

    old: str
    new: str
    spec: tuple[Change, ...]
    figures: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}


def read_plan(path: Path) -> dict[str, Any]:
    """A plan.json, or the one in a run directory. BadInput when it is none."""
    file = path / "plan.json" if path.is_dir() else path
    try:
        value = json.loads(_content(file))
    except (OSError, ValueError, RecursionError) as error:
        hint = "a plan.json, a run directory or an experiment"
        raise BadInput(f"no plan could be read: {error}", str(file), hint) from error
    if not isinstance(value, dict) or "verdict" not in value or "memory" not in value:
        raise BadInput("this JSON is not a plan: it has no `verdict` and `memory`", str(file))
    return value


def _content(file: Path) -> bytes:
    if not file.is_file():  # a pipe would be waited for, a device never ends
        raise FileNotFoundError(ENOENT, "no such file", str(file))
    with file.open("rb") as stream:
        return stream.read(MAX_BYTES)


def compare_plans(old: Mapping[str, Any], new: Plan, *, specs: tuple[LoadedSpec, LoadedSpec] | None) -> PlanDiff:
    """Changes from `old` (a plan's JSON) to `new`; spec values too when both specs are at hand."""
    figures = _changes(_figures(_plain(old)), _figures(_plain(new.to_json())))
    spec = tuple(_spec_changes(*specs)) if specs else ()
    return PlanDiff(f"{old.get('name')} {old.get('digest')}", f"{new.name} {new.digest}", spec, tuple(figures))


def _plain(value: Mapping[str, Any]) -> Any:
    """Through JSON, so that a saved plan and a fresh one hold the same types."""
    return json.loads(json.dumps(value))


def _spec_changes(old: LoadedSpec, new: LoadedSpec) -> Iterator[Change]:
    before, after = (flatten(loaded.spec.model_dump(mode="json")) for loaded in (old, new))
    for change in _changes(before, after):
        yield Change(change.key, change.old, change.new, new.where(change.key))


def _figures(plan: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in plan.items() if key not in IGNORED and key != "findings"}
    findings = {finding["id"] + " " + finding["severity"] for finding in plan.get("findings", ())}
    flat = {key: value for key, value in flatten(kept).items() if ".phases." not in key}
    return {**flat, **{f"findings.{name}": "present" for name in sorted(findings)}}


def flatten(value: Any, key: str = "") -> dict[str, Any]:
    """Nested mappings and lists as dotted keys; an empty one stays a leaf."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        items = [(str(name), child) for name, child in value.items()]
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        items = [(str(index), child) for index, child in enumerate(value)]
    if not items:
        return {key: value}
    flat: dict[str, Any] = {}
    for name, child in items:
        flat |= flatten(child, f"{key}.{name}" if key else name)
    return flat


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in [*new, *(key for key in old if key not in new)]:
        before, after = old.get(key), new.get(key)
        if not _same(before, after):
            yield Change(key, before, after)


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float | int) and isinstance(new, float | int) and not isinstance(old, bool):
        return abs(old - new) <= SAME_FIGURE * max(abs(old), abs(new))
    return bool(old == new)
