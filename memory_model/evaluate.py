"""`python -m memory_model.evaluate [CASES…] [--json]`: predict every measured case and say how far off we are."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from memory_model.band import RESIDUALS, Residual, band_from, traits_of
from memory_model.case import Case, load_cases
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.evaluation_summary import render, summary
from memory_model.host import trainer_host_gib
from memory_model.layout import why_impossible
from memory_model.predict import predict
from memory_model.prediction import StagePrediction

FORMAT_VERSION = 1
CASE_FAMILY_GRID = tuple(1.0 + step * 0.05 for step in range(13))
"""Values of the natural imbalance that a left-out model's rivals may choose from."""


@dataclass(frozen=True)
class Row:
    """One case and what the model says about it."""

    id: str
    model: str
    family: str
    source: str
    url: str
    quality: str
    kind: str
    scope: str
    measured_gib: float
    predicted_gib: float | None
    low_gib: float | None
    high_gib: float | None
    error_pct: float | None
    left_out_error_pct: float | None
    """Error when the fitted coefficient is fitted without this model."""
    expressed: bool
    verdict: str
    note: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print rows and summary of the given case files, or of the package's own."""
    parser = argparse.ArgumentParser(prog="python -m memory_model.evaluate", description=__doc__)
    parser.add_argument("cases", nargs="*", type=Path, help="case files; none: the package's own")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--write-residuals", action="store_true", help="store the residuals that error bands use")
    options = parser.parse_args(arguments)
    try:
        cases = load_cases(options.cases)
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    if options.write_residuals:
        write_residuals(cases)
    rows = evaluate(cases)
    if options.json:
        body = {"format_version": FORMAT_VERSION, "rows": [asdict(row) for row in rows], **summary(rows)}
        print(json.dumps(body, indent=1))
    else:
        print(render(rows))
    return 0


def evaluate(cases: Iterable[Case]) -> tuple[Row, ...]:
    """Predict every case; bands come from the residuals of other models only."""
    listed = tuple(cases)
    predicted = {case.id: _predicted_gib(case, DEFAULT) for case in listed}
    residuals = residuals_of(listed, predicted)
    left_out = _left_out(listed)
    return tuple(_row(case, predicted[case.id], residuals, left_out.get(case.id)) for case in listed)


def _row(case: Case, predicted: float | None, residuals: tuple[Residual, ...], left_out: float | None) -> Row:
    band = _band(case, predicted, residuals)
    numeric = predicted is not None and case.kind != "oom"
    return Row(
        id=case.id,
        model=case.model,
        family=case.family,
        source=case.group,
        url=case.source,
        quality=case.quality,
        kind=case.kind,
        scope=case.scope,
        measured_gib=case.measured_gib,
        predicted_gib=predicted,
        low_gib=None if predicted is None else predicted * band[0],
        high_gib=None if predicted is None else predicted * band[1],
        error_pct=100 * (predicted / case.measured_gib - 1) if numeric and predicted is not None else None,
        left_out_error_pct=left_out if numeric else None,
        expressed=predicted is not None,
        verdict=_verdict(case),
        note=case.cannot_express or case.note,
    )


def _predicted_gib(case: Case, coefficients: Coefficients) -> float | None:
    """What the instrument of the case would have shown; None when the case cannot be expressed."""
    if case.cannot_express or why_impossible(case.arch, case.layout):
        return None
    if case.kind == "host":
        return trainer_host_gib(case.arch, case.layout, case.workload) * case.layout.world
    built = predict(
        case.arch, case.layout, case.workload, case.device, coefficients=coefficients, band=(1.0, 1.0)
    ).stages
    if case.stage == "last":
        built = built[-1:]
    elif case.stage != "max":
        built = (built[int(case.stage)],)
    if case.scope == "activations":
        return max(stage.activation_growth_gib for stage in built)
    return max(_reading(case, stage) for stage in built)


def _reading(case: Case, stage: StagePrediction) -> float:
    if case.kind == "oom":
        return stage.peak_gib
    if case.reading == "device":
        return stage.peak_gib
    return stage.reserved_gib if case.reading == "reserved" else stage.allocated_gib


def _verdict(case: Case) -> str:
    if case.kind == "host" or case.cannot_express or why_impossible(case.arch, case.layout):
        return "NOT_APPLICABLE"
    return predict(case.arch, case.layout, case.workload, case.device).verdict


def residuals_of(cases: Iterable[Case], predicted: dict[str, float | None]) -> tuple[Residual, ...]:
    """Measured over predicted for every expressed numeric row."""
    found = []
    for case in cases:
        estimate = predicted[case.id]
        if estimate is not None and case.kind != "oom":
            traits = traits_of(case.arch, case.layout, case.workload, _trait_reading(case))
            found.append(Residual(case.id, case.family, traits, estimate, case.measured_gib / estimate))
    return tuple(found)


def write_residuals(cases: Iterable[Case]) -> None:
    """Store the residuals for `band.error_band`."""
    listed = tuple(cases)
    rows = residuals_of(listed, {case.id: _predicted_gib(case, DEFAULT) for case in listed})
    rounded = [replace(row, predicted_gib=round(row.predicted_gib, 3), ratio=round(row.ratio, 4)) for row in rows]
    lines = ",\n".join("  " + json.dumps(asdict(row)) for row in rounded)
    RESIDUALS.write_text('{\n "residuals": [\n' + lines + "\n ]\n}\n", encoding="utf-8")


def _band(case: Case, predicted: float | None, residuals: tuple[Residual, ...]) -> tuple[float, float]:
    if predicted is None:
        return (1.0, 1.0)
    others = [row for row in residuals if row.family != case.family]
    return band_from(others, traits_of(case.arch, case.layout, case.workload, _trait_reading(case)), predicted)


def _trait_reading(case: Case) -> str:
    return "host" if case.kind == "host" else "activations" if case.scope == "activations" else case.reading


def _left_out(cases: tuple[Case, ...]) -> dict[str, float]:
    """Errors with the natural imbalance fitted on the other models; rows that do not see it keep their error."""
    errors: dict[str, dict[float, float]] = {}
    for case in cases:
        if case.kind in ("oom", "host"):
            continue
        sees = case.arch.is_moe and case.workload.experts.imbalance is None
        sees = sees and case.workload.experts.capacity_factor is None
        errors[case.id] = {}
        for value in CASE_FAMILY_GRID if sees else (DEFAULT.natural_imbalance,):
            estimate = _predicted_gib(case, replace(DEFAULT, natural_imbalance=value))
            if estimate is not None:
                errors[case.id][value] = 100 * (estimate / case.measured_gib - 1)
    return {case.id: _held_out(case, cases, errors) for case in cases if errors.get(case.id)}


def _held_out(case: Case, cases: tuple[Case, ...], errors: dict[str, dict[float, float]]) -> float:
    own = errors[case.id]
    if len(own) == 1:
        return next(iter(own.values()))

    def cost(value: float) -> float:
        families: dict[str, list[float]] = {}
        for other in cases:
            grid = errors.get(other.id, {})
            if other.family != case.family and len(grid) > 1 and other.kind == "max_allocated":
                families.setdefault(other.family, []).append(abs(grid[value]))
        return sum(sum(row) / len(row) for row in families.values())

    return own[min(CASE_FAMILY_GRID, key=cost)]


if __name__ == "__main__":
    sys.exit(main())
