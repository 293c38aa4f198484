"""Fit the few physical unknowns to a user's own readings, and say what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_model.architecture import Architecture
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.device import Device
from memory_model.layout import Layout
from memory_model.predict import predict
from memory_model.prediction import Phase
from memory_model.readings import Instrument
from memory_model.terms.term import Role
from memory_model.workload import Workload

READING_SIGMA_GIB = 0.3
"""How far a right model may be from a reading: allocator granularity and ranks that differ."""
PRIOR_SIGMA: Mapping[str, float] = {
    "reserved_over_allocated": 0.03,
    "communicator_gib": 0.15,
    "other_role_residual_gib": 0.5,
    "memory_saver_margin_gib": 0.3,
    "natural_imbalance": 0.2,
    "activation_scale": 0.5,
    "deltanet_scale": 0.3,
    "fixed_extra_gib": 0.5,
}
"""How far each unknown may move from its default before the data must insist; nothing else is ever fitted."""
ROUNDS = 6
STEP = 1e-3


@dataclass(frozen=True)
class Observation:
    """A reading joined to the prediction that it belongs to."""

    label: str
    instrument: Instrument
    gib: float
    arch: Architecture
    layout: Layout
    workload: Workload
    device: Device
    role: Role = "actor"
    stage: int | None = None
    """The pipeline stage that was read; None for the highest."""
    phase: str = ""
    """The phase that was read; empty for the highest."""


@dataclass(frozen=True)
class Change:
    """One coefficient that moved."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class Fit:
    """The result of a calibration."""

    coefficients: Coefficients
    changes: tuple[Change, ...]
    errors_before_gib: Mapping[str, float]
    errors_after_gib: Mapping[str, float]
    held_out_before_gib: float
    """Mean absolute error of readings, each predicted with the defaults."""
    held_out_after_gib: float | None
    """The same with a fit that did not see the reading; None for a single reading."""


def calibrate(observations: Sequence[Observation], names: Sequence[str] | None = None) -> Fit:
    """Fit the named unknowns (all of `PRIOR_SIGMA` by default) to the observations."""
    chosen = tuple(names or PRIOR_SIGMA)
    if unknown := set(chosen) - set(PRIOR_SIGMA):
        raise ValueError(f"not a physical unknown: {sorted(unknown)}; can be fitted: {sorted(PRIOR_SIGMA)}")
    fitted = _fit(observations, chosen)
    before = {item.label: expected(item, DEFAULT) - item.gib for item in observations}
    after = {item.label: expected(item, fitted) - item.gib for item in observations}
    changes = tuple(
        Change(name, getattr(DEFAULT, name), getattr(fitted, name))
        for name in chosen
        if abs(getattr(fitted, name) - getattr(DEFAULT, name)) > 1e-4
    )
    return Fit(fitted, changes, before, after, _mean_abs(before.values()), _held_out(observations, chosen))


def expected(item: Observation, coefficients: Coefficients) -> float:
    """What the instrument of an observation would have shown, GiB."""
    prediction = predict(
        item.arch, item.layout, item.workload, item.device, item.role, coefficients=coefficients, band=(1.0, 1.0)
    )
    read = prediction.stages if item.stage is None else (prediction.stages[item.stage],)
    phases = [phase for stage in read for phase in stage.phases if not item.phase or phase.name == item.phase]
    return max(_shown(item.instrument, phase) for phase in phases)


def _shown(instrument: Instrument, phase: Phase) -> float:
    terms = phase.terms
    other = terms.get("other role's process", 0.0)
    margin = terms.get("memory saver margin", 0.0)
    if instrument == "allocated":
        return phase.allocated_gib
    if instrument == "reserved":
        return phase.reserved_gib
    if instrument == "in_use":
        return phase.peak_gib - other - margin
    if instrument == "non_pytorch":
        return phase.peak_gib - phase.reserved_gib - other - margin
    return other if instrument == "other_process" else phase.peak_gib


def _fit(observations: Sequence[Observation], names: tuple[str, ...]) -> Coefficients:
    """Gauss-Newton on the cost, with steps halved until the cost falls (peaks are maxima, so it has kinks)."""
    current = DEFAULT
    for _ in range(ROUNDS):
        move = _step(observations, names, current)
        cost, scale = _cost(observations, names, current), 1.0
        while scale > 0.05:
            values = {
                name: bounded(name, getattr(current, name) + scale * step)
                for name, step in zip(names, move, strict=True)
            }
            tried = replace(current, **values)
            if _cost(observations, names, tried) < cost:
                current = tried
                break
            scale /= 2
        else:
            return current
    return current


def _cost(observations: Sequence[Observation], names: tuple[str, ...], at: Coefficients) -> float:
    """Squared errors over the reading's sigma, plus squared moves over their prior sigma."""
    errors: float = sum(((expected(item, at) - item.gib) / READING_SIGMA_GIB) ** 2 for item in observations)
    moves: float = sum(((getattr(at, name) - getattr(DEFAULT, name)) / PRIOR_SIGMA[name]) ** 2 for name in names)
    return errors + moves


def _step(observations: Sequence[Observation], names: tuple[str, ...], current: Coefficients) -> list[float]:
    """The Gauss-Newton step from the normal equations."""
    normal = [[0.0] * len(names) for _ in names]
    right = [0.0] * len(names)
    for item in observations:
        value = expected(item, current)
        row = _gradient(item, current, names, value)
        for i, first in enumerate(row):
            right[i] += first * (item.gib - value) / READING_SIGMA_GIB**2
            for j, second in enumerate(row):
                normal[i][j] += first * second / READING_SIGMA_GIB**2
    for i, name in enumerate(names):
        weight = 1 / PRIOR_SIGMA[name] ** 2
        normal[i][i] += weight
        right[i] += weight * (getattr(DEFAULT, name) - getattr(current, name))
    return _solve(normal, right)


def _gradient(item: Observation, at: Coefficients, names: tuple[str, ...], base: float) -> list[float]:
    return [(expected(item, replace(at, **{name: getattr(at, name) + STEP})) - base) / STEP for name in names]


def bounded(name: str, value: float) -> float:
    """No coefficient leaves what is physically possible."""
    floor = {"reserved_over_allocated": 1.0, "natural_imbalance": 1.0, "activation_scale": 0.2, "deltanet_scale": 0.2}
    return max(floor.get(name, -2.0 if name == "fixed_extra_gib" else 0.0), value)


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination; the prior keeps the matrix positive definite."""
    size = len(right)
    rows = [[*matrix[i], right[i]] for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution


def _held_out(observations: Sequence[Observation], names: tuple[str, ...]) -> float | None:
    if len(observations) < 2:
        return None
    errors = []
    for index, item in enumerate(observations):
        others = [*observations[:index], *observations[index + 1 :]]
        errors.append(expected(item, _fit(others, names)) - item.gib)
    return _mean_abs(errors)


def _mean_abs(values: Any) -> float:
    listed = [abs(value) for value in values]
    return sum(listed) / len(listed) if listed else 0.0
