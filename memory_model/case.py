"""Measured cases: the file format, and how a case becomes a prediction's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from memory_model.architecture import Architecture
from memory_model.device import KNOWN, Device
from memory_model.json_object import read_object
from memory_model.layout import Layout
from memory_model.models import architecture_from, raw_model
from memory_model.workload import Experts, Kernels, Loss, Optimizer, Recompute, Workload

FORMAT_VERSION = 1
CASES = Path(__file__).parent / "cases"

Kind = Literal["max_allocated", "reserved", "oom", "host"]
Quality = Literal["high", "med", "low"]


@dataclass(frozen=True)
class Case:
    """One reading and everything needed to predict it."""

    id: str
    model: str
    source: str
    quality: Quality
    kind: Kind
    measured_gib: float
    device: Device
    arch: Architecture
    layout: Layout
    workload: Workload
    stage: str
    """Which pipeline stage was read: a number, `last`, or `max` for the highest."""
    scope: Literal["peak", "activations"] = "peak"
    """`activations`: growth in the forward pass only."""
    reading: Literal["allocated", "reserved", "device"] = "allocated"
    """Which number the instrument shows: PyTorch's allocated or reserved peak, or the driver's."""
    group: str = ""
    """Name of the case file: the source that evaluation summarises by."""
    family: str = ""
    """Cases with one family are repetitions of one model; used for leave-one-model-out."""
    note: str = ""
    states_gib: float | None = None
    """Allocated between steps, where the source gives it."""
    cannot_express: str = ""
    """Why this model cannot express the case; empty when it can."""


def load_cases(paths: Iterable[Path] = ()) -> tuple[Case, ...]:
    """Cases of the given files, or the package's own; ValueError names file, case and key that is wrong."""
    files = sorted(paths) or sorted(CASES.glob("*.json"))
    return tuple(replace(case, group=path.stem) for path in files for case in _read(path))


def _read(path: Path) -> list[Case]:
    entries = read_object(path, FORMAT_VERSION).get("cases")
    if not isinstance(entries, list):
        raise ValueError(f"{path}: it has no list `cases`")
    return [_located_case(path, number, entry) for number, entry in enumerate(entries, 1)]


def _located_case(path: Path, number: int, entry: Any) -> Case:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{path}: case {number} is {type(entry).__name__}, expected an object")
    try:
        return _case(entry)
    except KeyError as problem:
        raise ValueError(f"{path}: case {entry.get('id', number)}: {problem} is missing or unknown") from problem
    except (TypeError, ValueError, AttributeError) as problem:
        raise ValueError(f"{path}: case {entry.get('id', number)}: {problem}") from problem


def _case(entry: Mapping[str, Any]) -> Case:
    shape = dict(entry["architecture"])
    base = shape.pop("base", None)
    arch = architecture_from({**(raw_model(base) if base else {}), **shape})
    device = entry["device"]
    return Case(
        id=entry["id"],
        model=entry["model"],
        source=entry["source"],
        quality=entry["quality"],
        kind=entry["kind"],
        measured_gib=float(entry["measured_gib"]),
        device=KNOWN[device] if isinstance(device, str) else Device(**device),
        arch=arch,
        layout=layout_from(entry["layout"]),
        workload=workload_from(entry["workload"]),
        stage=str(entry.get("stage", "max")),
        scope=entry.get("scope", "peak"),
        reading=entry.get("reading", "reserved" if entry["kind"] == "reserved" else "allocated"),
        family=entry.get("model_family", base or entry["model"]),
        note=entry.get("note", ""),
        states_gib=entry.get("states_gib"),
        cannot_express=entry.get("cannot_express", ""),
    )


def layout_from(values: Mapping[str, Any]) -> Layout:
    """A layout from a JSON mapping in `Layout`'s field names."""
    given = dict(values)
    if "chunk_layers" in given:
        given["chunk_layers"] = tuple(given["chunk_layers"])
    return Layout(**given)


def workload_from(values: Mapping[str, Any]) -> Workload:
    """A workload from a JSON mapping in `Workload`'s field names, its blocks as nested mappings."""
    given = dict(values)
    blocks = {"optimizer": Optimizer, "loss": Loss, "experts": Experts, "kernels": Kernels}
    for key, build in blocks.items():
        if key in given:
            given[key] = build(**given[key])
    if "recompute" in given:
        recompute = dict(given["recompute"])
        recompute["modules"] = frozenset(recompute.get("modules", ()))
        given["recompute"] = Recompute(**recompute)
    if "roles" in given:
        given["roles"] = tuple(given["roles"])
    return Workload(**given)
