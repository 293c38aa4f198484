"""Error band of an estimate: what the measured cases nearest in kind deviated from their own estimates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from math import log2
from pathlib import Path
from typing import Any

from memory_model.architecture import Architecture
from memory_model.layout import Layout
from memory_model.workload import Workload

RESIDUALS = Path(__file__).parent / "data" / "residuals.json"

ENOUGH_FAMILIES = 4
ENOUGH_ROWS = 8
QUANTILES = (0.05, 0.95)
BASE_MARGIN = 0.008
"""Added on both sides: readings of equal runs differ by up to this much between ranks and GPU generations."""
MARGIN_PER_DISTANCE = 0.008
FLOOR_GIB = 0.035
"""Workspaces that no formula follows; matters for small models only."""

WEIGHTS: Mapping[str, float] = {
    "moe": 2.0,
    "natural_routing": 1.0,
    "mla": 1.0,
    "gdn": 2.0,
    "lora": 2.0,
    "recompute": 1.0,
    "unfused": 1.0,
    "dropout": 1.0,
    "loss": 1.0,
    "pipeline": 0.5,
    "interleaved": 1.0,
    "offload": 1.0,
    "fp8": 2.0,
    "graphs_or_flex": 2.0,
    "reading": 5.0,
}
SIZE_WEIGHT = 0.5
"""Per doubling of the estimate."""


@dataclass(frozen=True)
class Traits:
    """What makes two predictions alike in kind."""

    moe: bool
    natural_routing: bool
    mla: bool
    gdn: bool
    lora: bool
    recompute: str
    unfused: bool
    dropout: bool
    loss: str
    pipeline: bool
    interleaved: bool
    offload: bool
    fp8: bool
    graphs_or_flex: bool
    reading: str = "allocated"


@dataclass(frozen=True)
class Residual:
    """One measured case: measured over predicted."""

    id: str
    family: str
    traits: Traits
    predicted_gib: float
    ratio: float


def traits_of(arch: Architecture, layout: Layout, workload: Workload, reading: str = "allocated") -> Traits:
    """The traits of a prediction."""
    kernels, experts = workload.kernels, workload.experts
    balanced = experts.imbalance is not None or experts.capacity_factor is not None
    return Traits(
        moe=arch.is_moe,
        natural_routing=arch.is_moe and not balanced,
        mla=arch.mla is not None,
        gdn=arch.gated_deltanet is not None,
        lora=workload.lora_rank > 0,
        recompute=workload.recompute.kind,
        unfused=not kernels.flash_attention,
        dropout=kernels.dropout,
        loss=workload.loss.kind,
        pipeline=layout.pp > 1,
        interleaved=layout.vpp > 1,
        offload=workload.optimizer.offload_fraction > 0,
        fp8=kernels.fp8,
        graphs_or_flex=kernels.cuda_graphs or experts.dispatcher == "flex",
        reading=reading,
    )


def error_band(traits: Traits, predicted_gib: float) -> tuple[float, float]:
    """Factors on the estimate (low <= 1 <= high) from the package's own measured cases."""
    return _cached_band(traits, round(2 * log2(max(predicted_gib, 0.25))))


@lru_cache(maxsize=4096)
def _cached_band(traits: Traits, half_octave: int) -> tuple[float, float]:
    return band_from(known_residuals(), traits, 2.0 ** (half_octave / 2))


def band_from(residuals: Iterable[Residual], traits: Traits, predicted_gib: float) -> tuple[float, float]:
    """The band that a given set of residuals supports: quantiles over the nearest families, widened by distance."""
    near = sorted(
        ((_distance(row, traits, predicted_gib), row.id, row) for row in residuals), key=lambda item: item[:2]
    )
    if not near:
        return (0.7, 1.3)
    chosen = _nearest(near)
    families: dict[str, list[float]] = {}
    for _, _, row in chosen:
        families.setdefault(row.family, []).append(row.ratio)
    weighted = sorted((ratio, 1 / len(ratios)) for ratios in families.values() for ratio in ratios)
    mean_distance = sum(distance for distance, _, _ in chosen) / len(chosen)
    margin = BASE_MARGIN + MARGIN_PER_DISTANCE * mean_distance + FLOOR_GIB / max(predicted_gib, 0.25)
    low, high = (_quantile(weighted, q) for q in QUANTILES)
    return (max(0.3, min(1.0, low) - margin), max(1.0, high) + margin)


def _nearest(near: list[tuple[float, str, Residual]]) -> list[tuple[float, str, Residual]]:
    """The nearest rows until there are enough rows and families; ties with the last one are kept."""
    chosen: list[tuple[float, str, Residual]] = []
    for item in near:
        families = {row.family for _, _, row in chosen}
        enough = len(chosen) >= ENOUGH_ROWS and len(families) >= ENOUGH_FAMILIES
        if enough and item[0] > chosen[-1][0]:
            break
        chosen.append(item)
    return chosen


def _distance(row: Residual, traits: Traits, predicted_gib: float) -> float:
    apart = sum(weight for name, weight in WEIGHTS.items() if getattr(row.traits, name) != getattr(traits, name))
    return apart + SIZE_WEIGHT * abs(log2(max(row.predicted_gib, 0.25) / max(predicted_gib, 0.25)))


def _quantile(weighted: list[tuple[float, float]], q: float) -> float:
    total, seen = sum(weight for _, weight in weighted), 0.0
    for value, weight in weighted:
        seen += weight
        if seen >= q * total:
            return value
    return weighted[-1][0]


@lru_cache(maxsize=1)
def known_residuals() -> tuple[Residual, ...]:
    """The package's measured cases, as `python -m memory_model.evaluate --write-residuals` left them."""
    return tuple(_residual(entry) for entry in json.loads(RESIDUALS.read_text(encoding="utf-8"))["residuals"])


def _residual(entry: Mapping[str, Any]) -> Residual:
    traits = Traits(**{field.name: entry["traits"][field.name] for field in fields(Traits)})
    return Residual(entry["id"], entry["family"], traits, entry["predicted_gib"], entry["ratio"])
