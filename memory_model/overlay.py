"""A fit kept in a file, and read back as coefficients over the defaults."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from math import isfinite
from pathlib import Path

from memory_model.calibration import Fit, bounded
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.json_object import read_object

FORMAT_VERSION = 1


def write_overlay(path: Path, fit: Fit, *, about: str) -> None:
    """Keep a fit as an overlay."""
    path.write_text(overlay_text(fit, about=about), encoding="utf-8")


def overlay_text(fit: Fit, *, about: str) -> str:
    """A fit as the text of an overlay: only what moved, with the errors it was judged by."""
    body = {
        "format_version": FORMAT_VERSION,
        "about": about,
        "fitted": True,
        "coefficients": {change.name: round(change.after, 4) for change in fit.changes},
        "changes": [asdict(change) for change in fit.changes],
        "errors_before_gib": dict(fit.errors_before_gib),
        "errors_after_gib": dict(fit.errors_after_gib),
        "held_out_before_gib": fit.held_out_before_gib,
        "held_out_after_gib": fit.held_out_after_gib,
    }
    return json.dumps(body, indent=1) + "\n"


def read_overlay(path: Path) -> Coefficients:
    """Coefficients of an overlay over the defaults; ValueError names what does not belong in one."""
    values = read_object(path, FORMAT_VERSION).get("coefficients")
    if not isinstance(values, dict):
        raise ValueError(f"{path}: it has no `coefficients`")
    known = {field.name for field in fields(Coefficients)}
    if unknown := set(values) - known:
        raise ValueError(f"{path}: unknown coefficients {sorted(unknown)}; known: {sorted(known)}")
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            raise ValueError(f"{path}: `{name}` is {value!r}, expected a number")
        if value != bounded(name, value):
            raise ValueError(f"{path}: `{name}` is {value!r}, below {bounded(name, value):g}")
    return replace(DEFAULT, **values)


def overlay_about(path: Path) -> str:
    """What the fit of an overlay saw, in the words of whoever wrote it."""
    return str(read_object(path, FORMAT_VERSION).get("about", ""))
