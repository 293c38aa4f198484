"""One logged object as a row: which of its numbers is the step, which the clock, and every spelling of NaN."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from t1cli.run.metrics_reader import LAST_STEP
from t1cli.watch.sources.source import Row

AXES = ("rollout/step", "eval/step", "train/step")
PLAIN_STEPS = ("step", "global_step", "training/global_step", "train/global_step", "_step")
CLOCKS = ("time", "_timestamp")
_SPELLED = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}
_NUMPY = re.compile(r"(?:np|numpy)\.\w+\(([^)]*)\)|tensor\(([^,)]*).*\)")


def flat_row(
    found: Mapping[str, Any], *, steps_per_rollout: int = 1, null_is_nan: bool = False, also_nan: Iterable[str] = ()
) -> Row | None:
    """A row, or None for an object without a step. Nested objects become paths."""
    flat = dict(_flattened(found))
    step = _step(flat, steps_per_rollout)
    if step is None:
        return None
    values = {}
    for key, value in flat.items():
        number = math.nan if value is None and null_is_nan else as_number(value)
        if number is not None and key not in (*AXES, *PLAIN_STEPS, *CLOCKS):
            values[key] = number
    values.update(dict.fromkeys(also_nan, math.nan))
    clock = next((as_number(flat[name]) for name in CLOCKS if name in flat), None)
    return Row(step, values, clock)


def as_number(value: object) -> float | None:
    """Numbers, the spellings of NaN and infinity, and numpy's own; everything else is not a metric."""
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:  # a whole number beyond floating point
            return math.nan
    if not isinstance(value, str):
        return None
    text = value.strip()
    wrapped = _NUMPY.fullmatch(text)
    text = (wrapped[1] or wrapped[2] or "").strip() if wrapped else text
    if text.lower() in _SPELLED:
        return _SPELLED[text.lower()]
    try:
        return float(text) if wrapped else None
    except ValueError:
        return None


def _flattened(found: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def _step(flat: Mapping[str, Any], steps_per_rollout: int) -> int | None:
    for axis in (*AXES, *PLAIN_STEPS):
        step = flat.get(axis)
        # Compared, not converted: a JSON number may be larger than any float. NaN compares as no step.
        if isinstance(step, int | float) and not isinstance(step, bool) and 0 <= step <= LAST_STEP:
            return int(step) // steps_per_rollout if axis == "train/step" else int(step)
    return None
