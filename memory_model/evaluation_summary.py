"""Totals and text of an evaluation: by source and quality, above and below 8 GiB, bands and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_model.evaluate import Row

SMALL_GIB = 8.0
"""Below this only the absolute error means anything: workspaces are a large share."""


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """`summary` by source and quality, `totals` by quality above 8 GiB, `bands` and `verdicts` over all rows."""
    by_source: dict[str, dict[str, Any]] = {}
    for source in dict.fromkeys(row.source for row in rows):
        for quality in ("high", "med", "low"):
            chosen = [row for row in rows if row.source == source and row.quality == quality]
            if chosen:
                by_source.setdefault(source, {})[quality] = metrics(chosen)
    return {
        "summary": by_source,
        "totals": _totals(rows),
        "bands": _bands(rows),
        "verdicts": _verdicts(rows),
    }


def metrics(rows: Iterable[Row]) -> dict[str, Any]:
    """Error figures of some rows; percentages over numeric rows above 8 GiB, absolute GiB below."""
    listed = list(rows)
    numeric = [row for row in listed if row.error_pct is not None]
    large = [row for row in numeric if row.measured_gib >= SMALL_GIB]
    small = [row for row in numeric if row.measured_gib < SMALL_GIB]
    errors = [row.error_pct for row in large or small if row.error_pct is not None]
    left_out = [row.left_out_error_pct for row in large or small if row.left_out_error_pct is not None]
    return {
        "rows": len(listed),
        "expressed": sum(row.expressed for row in listed),
        "above_8_gib": len(large),
        "mae_pct": _mean(abs(error) for error in errors),
        "bias_pct": _mean(errors),
        "worst_pct": max(errors, key=abs, default=None),
        "left_out_mae_pct": _mean(abs(error) for error in left_out),
        "small_mae_gib": _mean(abs((row.predicted_gib or 0.0) - row.measured_gib) for row in small),
        "coverage": _mean(float(_covered(row)) for row in numeric),
    }


def _totals(rows: Sequence[Row]) -> dict[str, Any]:
    peaks = [row for row in rows if row.kind == "max_allocated" and row.scope == "peak"]
    totals = {
        f"{quality}_above_8_gib": metrics(
            row for row in peaks if row.quality == quality and row.measured_gib >= SMALL_GIB
        )
        for quality in ("high", "med")
    }
    totals["below_8_gib"] = metrics(row for row in peaks if row.measured_gib < SMALL_GIB)
    return totals


def _bands(rows: Sequence[Row]) -> dict[str, Any]:
    numeric = [row for row in rows if row.error_pct is not None]
    widths = [
        100 * ((row.high_gib or 0.0) - (row.low_gib or 0.0)) / row.predicted_gib for row in numeric if row.predicted_gib
    ]
    return {
        "coverage": _mean(float(_covered(row)) for row in numeric),
        "median_width_pct": median(widths) if widths else None,
        "not_covered": [row.id for row in numeric if not _covered(row)],
        "not_expressed": [{"id": row.id, "why": row.note} for row in rows if not row.expressed],
    }


def _verdicts(rows: Sequence[Row]) -> dict[str, Any]:
    fitting = [row for row in rows if row.kind not in ("oom", "host")]
    return {
        "oom_rows": {row.id: row.verdict for row in rows if row.kind == "oom"},
        "fitting_rows_called_oom": [row.id for row in fitting if row.verdict == "OOM"],
    }


def _covered(row: Row) -> bool:
    return row.low_gib is not None and row.high_gib is not None and row.low_gib <= row.measured_gib <= row.high_gib


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


LEGEND = """\
measured, predicted, band: GiB of one GPU, of a whole node for kind `host`. error: predicted over measured.
left out: the error with the fitted imbalance fitted to the other models only. expressed: cases whose every part this
model knows. Errors in percent are those of readings of 8 GiB and more where there are any, smaller ones are in GiB."""
_NAMES = {
    "high_above_8_gib": "max_allocated of 8 GiB and more, high quality",
    "med_above_8_gib": "max_allocated of 8 GiB and more, med quality",
    "below_8_gib": "max_allocated below 8 GiB",
}


def render(rows: Sequence[Row]) -> str:
    """Rows and totals for people."""
    body = summary(rows)
    lines = [f"{'case':9} {'model':42} {'kind':13} {'measured':>9} {'predicted':>9} {'error':>7} {'band':>15} verdict"]
    lines += [*(_line(row) for row in rows), "", LEGEND, ""]
    lines += [_total(_NAMES.get(name, name), figures) for name, figures in body["totals"].items()]
    for source, qualities in body["summary"].items():
        lines += [_total(f"{source}, {quality} quality", figures) for quality, figures in qualities.items()]
    return "\n".join([*lines, *_judged(body["bands"], body["verdicts"])])


def _judged(bands: dict[str, Any], verdicts: dict[str, Any]) -> list[str]:
    lines = []
    if bands["coverage"] is not None:
        lines.append(
            f"bands cover {100 * bands['coverage']:.1f} % of rows, median width {bands['median_width_pct']:.1f} %; "
            f"outside: {', '.join(bands['not_covered']) or 'none'}"
        )
    ran_out = ", ".join(f"{case} {verdict}" for case, verdict in verdicts["oom_rows"].items())
    called = ", ".join(verdicts["fitting_rows_called_oom"])
    lines.append(
        f"verdicts on runs that ran out of memory: {ran_out or 'none'}; on runs that fitted, OOM: {called or 'none'}"
    )
    return lines + [f"cannot express {item['id']}: {item['why']}" for item in bands["not_expressed"]]


def _line(row: Row) -> str:
    name = f"{row.id:9} {row.model[:42]:42} {row.kind:13} {row.measured_gib:9.3f}"
    if row.predicted_gib is None:
        return f"{name} {'-':>9} cannot express"
    error = "" if row.error_pct is None else f"{row.error_pct:+6.1f}%"
    band = f"{row.low_gib:.2f}–{row.high_gib:.2f}"
    return f"{name} {row.predicted_gib:9.3f} {error:>7} {band:>15} {row.verdict}"


def _total(name: str, figures: dict[str, Any]) -> str:
    def percent(key: str) -> str:
        value = figures[key]
        return "-" if value is None else f"{value:+.2f} %" if key in ("bias_pct", "worst_pct") else f"{value:.2f} %"

    small = "" if figures["small_mae_gib"] is None else f"; below 8 GiB {figures['small_mae_gib']:.3f} GiB off"
    return (
        f"{name}: {figures['expressed']}/{figures['rows']} expressed, mean error {percent('mae_pct')} "
        f"(left out {percent('left_out_mae_pct')}), bias {percent('bias_pct')}, worst {percent('worst_pct')}{small}"
    )
