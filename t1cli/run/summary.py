"""What a run has done so far, in numbers read from its own files: the answer of `t1 status` and `t1 runs`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from t1cli.errors import Refused
from t1cli.run import metric_names as names
from t1cli.run.directory import RunDirectory
from t1cli.run.events import Event, EventKind, read_events
from t1cli.run.metrics_reader import MetricRow, read_metrics, series
from t1cli.run.next_command import next_command, next_commands
from t1cli.run.record import RunRecord, read_record
from t1cli.run.reward_signal import rollouts_without_signal
from t1cli.run.run_files import saved_spec
from t1cli.run.state import RunState, standing

FORMAT_VERSION = 1
WINDOW: Final = 5
"""Rollouts in the first and in the last window."""


@dataclass(frozen=True)
class PhaseTime:
    """All stretches of one phase together."""

    phase: str
    times: int
    wall_seconds: float
    cpu_seconds: float
    """Of the campaign's process and all its descendants."""


@dataclass(frozen=True)
class Resumed:
    """One later session of a run."""

    at: float
    """Unix seconds."""
    rollout: int
    """Id of the rollout that it began with."""


@dataclass(frozen=True)
class FirstLast:
    """Means over the first and the last rollouts that have the metric; None where none has."""

    first: float | None
    last: float | None
    rollouts: int
    """Rollouts in each window."""


@dataclass(frozen=True)
class RunSummary:
    """Where a run stands."""

    name: str
    attempt: int
    run_dir: str
    state: RunState
    detail: str
    pid: int | None
    engine: str
    job_id: str
    sessions: int
    began: float | None
    """Unix seconds; of the first session."""
    resumed: tuple[Resumed, ...]
    earlier_seconds: float
    """Wall seconds of all sessions before the newest."""
    ended: float | None
    rollouts_done: int
    rollouts_planned: int | None
    phases: tuple[PhaseTime, ...]
    reward: FirstLast
    checks_passed: FirstLast
    check_rate: FirstLast
    explained_variance: FirstLast
    logprob_gap: FirstLast
    trials: int
    trials_failed: int
    failed_by_cause: Mapping[str, int]
    checkpoints: int
    """Saves, all roles together."""
    last_checkpoint_rollout: int | None
    rollouts_without_signal: int | None
    """Newest rollouts of which no trial differs in reward from another of its task; 0 where some do, None unread."""
    next_command: str
    next_commands: tuple[str, ...]

    @property
    def session_began(self) -> float | None:
        """Unix seconds; of the newest session."""
        return self.resumed[-1].at if self.resumed else self.began

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}


def summarize(run: RunDirectory, *, trials: bool = False) -> RunSummary:
    """Read a run's files, and its newest `trials` too where asked to.

    Works on a running, a dead and a torn run alike; what is not there is None or 0.
    """
    events, rows = read_events(run.events_jsonl), read_metrics(run.metrics_jsonl)
    now, record = standing(run, events), _record(run)
    launches = [event for event in events if event.kind is EventKind.LAUNCHED]
    saved = [event for event in events if event.kind is EventKind.CHECKPOINT]
    return RunSummary(
        name=run.name,
        attempt=run.attempt,
        run_dir=str(run.path),
        state=now.state,
        detail=now.detail,
        pid=now.pid,
        engine=record.engine if record else "",
        job_id=record.job_id if record else "",
        sessions=len(record.sessions) if record else 0,
        began=launches[0].time if launches else now.began,
        resumed=tuple(Resumed(e.time, int(e.number("resumed_from_rollout"))) for e in launches[1:]),
        earlier_seconds=_earlier_seconds(events, launches),
        ended=now.ended,
        rollouts_done=_rollouts_done(rows),
        rollouts_planned=_planned(run),
        phases=_phases(events),
        **_windows(rows),
        **_trials(rows),
        checkpoints=len({event.number("rollout") for event in saved}),
        last_checkpoint_rollout=int(saved[-1].number("rollout")) if saved else None,
        rollouts_without_signal=rollouts_without_signal(run) if trials else None,
        next_command=next_command(run, now, record),
        next_commands=next_commands(run, now, record),
    )


def _earlier_seconds(events: Sequence[Event], launches: Sequence[Event]) -> float:
    """Each session from its launch to its last event before the next launch."""
    starts = [events.index(launch) for launch in launches]
    return sum(max(0.0, events[end - 1].time - events[begin].time) for begin, end in pairwise(starts))


def _record(run: RunDirectory) -> RunRecord | None:
    try:
        return read_record(run)
    except Refused:
        return None


def _rollouts_done(rows: Sequence[MetricRow]) -> int:
    return 1 + max((row.step for row in rows if row.axis == names.ROLLOUT_STEP), default=-1)


def _planned(run: RunDirectory) -> int | None:
    rollout = saved_spec(run).get("rollout")
    planned = rollout.get("num_rollouts") if isinstance(rollout, dict) else None
    return planned if isinstance(planned, int) else None


def _phases(events: Sequence[Event]) -> tuple[PhaseTime, ...]:
    by_name: dict[str, list[Event]] = {}
    for event in events:
        if event.kind is EventKind.PHASE_ENDED:
            by_name.setdefault(event.text("phase"), []).append(event)
    return tuple(
        PhaseTime(
            name,
            len(ended),
            round(sum(e.number("wall_seconds") for e in ended), 3),
            round(sum(e.number("cpu_seconds") for e in ended), 3),
        )
        for name, ended in by_name.items()
    )


def _windows(rows: Sequence[MetricRow]) -> dict[str, Any]:
    return {
        "reward": _first_last(rows, names.REWARD),
        "checks_passed": _first_last(rows, names.CHECKS_PASSED),
        "check_rate": _first_last(rows, names.CHECK_RATE),
        "explained_variance": _first_last(rows, names.EXPLAINED_VARIANCE),
        "logprob_gap": _first_last(rows, names.LOGPROB_GAP),
    }


def _first_last(rows: Sequence[MetricRow], name: str) -> FirstLast:
    values = [value for value in series(rows, name).values() if math.isfinite(value)]
    if not values:
        return FirstLast(None, None, 0)
    window = min(WINDOW, len(values))
    return FirstLast(_mean(values[:window]), _mean(values[-window:]), window)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _trials(rows: Sequence[MetricRow]) -> dict[str, Any]:
    causes = sorted({name for row in rows for name in row.values if name.startswith(names.FAILED_BY_CAUSE)})
    by_cause = {name.removeprefix(names.FAILED_BY_CAUSE): _total(rows, name) for name in causes}
    return {
        "trials": _total(rows, names.TRIALS),
        "trials_failed": _total(rows, names.TRIALS_FAILED),
        "failed_by_cause": {cause: count for cause, count in by_cause.items() if count},
    }


def _total(rows: Sequence[MetricRow], name: str) -> int:
    return round(sum(value for value in series(rows, name).values() if math.isfinite(value)))
