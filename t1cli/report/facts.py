"""Everything that a report tells, read from a run's own files. Works on a running, a dead and a torn run alike."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from t1cli.records import read_json
from t1cli.report.trials import newest_trials
from t1cli.run.directory import RunDirectory
from t1cli.run.run_files import saved_spec
from t1cli.run.summary import RunSummary, summarize
from t1cli.terminal.rollout.recorded_trials import RecordedTrial
from t1cli.watch.history import Series
from t1cli.watch.result import WatchResult
from t1cli.watch.session import Session
from t1cli.watch.sources.open_source import Opened


@dataclass(frozen=True)
class Statistics:
    """n, extremes and three means of one metric's finite values."""

    metric: str
    n: int
    low: float
    high: float
    first20: float
    mean: float
    last20: float


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of one task set, with the 95% Wilson interval of its solved rate (catalogue C10)."""

    name: str
    rollout: int
    solved: int
    scored: int
    scheduled: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class MemoryRow:
    """What the plan said of one role's stage."""

    role: str
    stage: str
    planned_gib: float
    low_gib: float | None
    high_gib: float | None
    phase: str


@dataclass(frozen=True)
class Facts:
    """The content of the page."""

    summary: RunSummary
    spec: Mapping[str, Any]
    record: Mapping[str, Any]
    watch: WatchResult
    series: Mapping[str, Series]
    statistics: tuple[Statistics, ...]
    memory: tuple[MemoryRow, ...]
    usable_gib: float | None
    measured_gib: float | None
    """Most GPU memory that the run logged; None when it logged none."""
    outcomes: Mapping[str, Counter[str]]
    """Family to cause (`scored` or what lost the trial) to trials."""
    ledger: Mapping[str, float]
    """Account to sampled tokens."""
    families: Mapping[str, tuple[float, float]]
    """Family to accepted and cancelled trials."""
    evaluations: tuple[Evaluation, ...]
    trials: tuple[RecordedTrial, ...] = field(repr=False)
    gpus: float = 0.0
    hours: float | None = None

    @property
    def solved(self) -> int:
        """Training trials that solved their task."""
        return sum(trial.solved for trial in self.trials)


def gather(run: RunDirectory, opened: Opened) -> Facts:
    """Read a run. Raises BadInput when it has logged nothing yet."""
    session = Session(opened, gpus=opened.gpus)
    watch = session.replay()
    series = {name: s for name, s in session.engine.history.series.items() if s.finite and "|" not in name}
    summary, plan = summarize(run), read_json(run.plan_json) or {}
    trials = newest_trials(run)
    began, ended = summary.session_began, summary.ended or session.engine.history.last_time
    return Facts(
        summary=summary,
        spec=saved_spec(run),
        record=read_json(run.record_json) or {},
        watch=watch,
        series=series,
        statistics=tuple(statistics_of(name, s.finite) for name, s in sorted(series.items())),
        memory=_memory(plan),
        usable_gib=_number(_block(plan, "memory").get("usable_gib")),
        measured_gib=max(series["perf/max_memory_allocated_gib"].finite) if _logged_memory(series) else None,
        outcomes=_outcomes(trials),
        ledger=_ledger(series),
        families=_families(series),
        evaluations=_evaluations(series),
        trials=trials,
        gpus=opened.gpus,
        hours=(summary.earlier_seconds + ended - began) / 3600 if began and ended and ended > began else None,
    )


def statistics_of(metric: str, values: Sequence[float]) -> Statistics:
    """Statistics of a non-empty list of finite values."""
    return Statistics(
        metric,
        len(values),
        min(values),
        max(values),
        statistics.fmean(values[:20]),
        statistics.fmean(values),
        statistics.fmean(values[-20:]),
    )


def wilson(solved: float, scored: int) -> tuple[float, float]:
    """The 95% Wilson score interval of a share; (0, 1) without trials."""
    if scored == 0:
        return 0.0, 1.0
    z = 1.959964
    share = solved / scored
    middle = (share + z * z / (2 * scored)) / (1 + z * z / scored)
    half = z * math.sqrt(share * (1 - share) / scored + z * z / (4 * scored * scored)) / (1 + z * z / scored)
    return max(0.0, middle - half), min(1.0, middle + half)


def _logged_memory(series: Mapping[str, Series]) -> bool:
    return "perf/max_memory_allocated_gib" in series


def _memory(plan: Mapping[str, Any]) -> tuple[MemoryRow, ...]:
    rows = []
    for role, found in _block(_block(plan, "memory"), "roles").items():
        for stage in found.get("stages", ()) if isinstance(found, dict) else ():
            peak = _number(stage.get("peak_gib"))
            if peak is not None:
                low, high = _number(stage.get("low_gib")), _number(stage.get("high_gib"))
                rows.append(MemoryRow(role, str(stage.get("stage")), peak, low, high, str(stage.get("phase", ""))))
    return tuple(rows)


def _outcomes(trials: Sequence[RecordedTrial]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for trial in trials:
        found.setdefault(trial.family or "-", Counter())[trial.outcome] += 1
    return dict(sorted(found.items()))


def _ledger(series: Mapping[str, Series]) -> dict[str, float]:
    accounts = {"trained": "terminal/trained_tokens", "unaccounted": "terminal/unaccounted_tokens"}
    accounts |= {f"masked: {n.rsplit('/', 1)[-1]}": n for n in series if n.startswith("terminal/masked_tokens/")}
    return {account: sum(series[name].finite) for account, name in accounts.items() if name in series}


def _families(series: Mapping[str, Series]) -> dict[str, tuple[float, float]]:
    names = {n.rsplit("/", 1)[-1] for n in series if n.startswith(("terminal/accepted/", "terminal/cancelled/"))}

    def total(kind: str, family: str) -> float:
        known = series.get(f"terminal/{kind}/{family}")
        return sum(known.finite) if known else 0.0

    return {family: (total("accepted", family), total("cancelled", family)) for family in sorted(names)}


def _evaluations(series: Mapping[str, Series]) -> tuple[Evaluation, ...]:
    found = []
    for name in sorted(series):
        if not (name.startswith("eval/") and name.endswith("/scored")):
            continue
        task_set = name.removeprefix("eval/").removesuffix("/scored")
        rates = _by_step(series.get(f"eval/{task_set}/solved_rate"))
        scheduled = _by_step(series.get(f"eval/{task_set}/scheduled"))
        for step, scored in _by_step(series[name]).items():
            rate = rates.get(step, 0.0)
            low, high = wilson(rate * scored, int(scored))
            solved = round(rate * scored)
            planned = int(scheduled.get(step, scored))
            found.append(Evaluation(task_set, step, solved, int(scored), planned, rate, low, high))
    return tuple(found)


def _by_step(series: Series | None) -> dict[int, float]:
    return dict(zip(series.finite_steps, series.finite, strict=True)) if series is not None else {}


def _block(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    block = found.get(key)
    return block if isinstance(block, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
