"""Where a run stands, told from its lock and its last events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from t1cli.run.directory import RunDirectory
from t1cli.run.events import Event, EventKind, read_events
from t1cli.run.lock import lock_holder
from t1cli.run.ray_job import read_ray_job


class RunState(StrEnum):
    """The closed list of states."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    """Ended on request after a save; `--resume` goes on."""
    INTERRUPTED = "interrupted"
    """Ended by a signal that it could answer (Ctrl-C)."""
    FAILED = "failed"
    DEAD = "dead"
    """Its process vanished without a last word: SIGKILL, out of memory, power."""
    UNKNOWN = "unknown"
    """It runs, or ran, on another machine; or it is a job of a cluster that nobody follows."""


@dataclass(frozen=True)
class Standing:
    """State of a run and what was said about its end."""

    state: RunState
    detail: str
    pid: int | None
    """Process that runs it; None unless running."""
    began: float | None
    """Unix seconds of the newest session's start."""
    ended: float | None
    """Unix seconds of the newest session's end."""


def standing(run: RunDirectory, events: Sequence[Event] | None = None) -> Standing:
    """Where a run stands now."""
    events = read_events(run.events_jsonl) if events is None else events
    began = next((e for e in reversed(events) if e.kind is EventKind.LAUNCHED), None)
    ended = next((e for e in reversed(events) if e.kind is EventKind.ENDED), None)
    start = began.time if began else None
    holder = lock_holder(run.path.parent)
    if holder is not None and holder.attempt == run.attempt and holder.liveness != "dead":
        state = RunState.RUNNING if holder.liveness == "alive" else RunState.UNKNOWN
        return Standing(state, f"on host {holder.process.host}", holder.process.pid, start, None)
    if ended is not None and (began is None or events.index(ended) > events.index(began)):
        return Standing(_outcome(ended), ended.text("detail"), None, start, ended.time)
    if began is not None and (job := read_ray_job(run)) is not None:
        return Standing(RunState.UNKNOWN, f"nobody follows job {job.job_id}; it may still run", None, start, None)
    detail = "its process ended without a last word" if began else "it was never started"
    return Standing(RunState.DEAD, detail, None, start, None)


def _outcome(ended: Event) -> RunState:
    try:
        return RunState(ended.text("outcome"))
    except ValueError:
        return RunState.FAILED
