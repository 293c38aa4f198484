"""`--stop`: ask a running campaign to end after its next save, or interrupt exactly its process."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from t1cli.errors import Refused
from t1cli.launch.events import EventKind, EventWriter
from t1cli.launch.json_files import write_json
from t1cli.launch.lock import LockHolder, lock_holder
from t1cli.launch.run_directory import RunDirectory
from t1cli.launch.run_files import saved_spec
from t1cli.launch.run_summary import summarize

FORMAT_VERSION = 1


@dataclass(frozen=True)
class StopAnswer:
    """What a stop has brought about."""

    run_dir: str
    attempt: int
    pid: int
    how: str
    """`after_next_save` or `now`."""
    rollouts_done: int
    stops_after_rollouts: int | None
    """Rollouts that will be done at the next save; None when it stops at once."""
    seconds_until_then: float | None
    """Estimate from the mean rollout so far; None before the first one."""
    ended: bool
    """Whether the process was seen to end (`now` only)."""

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}


def stop_after_next_save(campaign: Path) -> StopAnswer:
    """Leave a stop request for the running attempt. Raises Refused when none runs."""
    run, holder = _running(campaign)
    write_json(run.stop_request, {"requested_at": time.time(), "by_pid": os.getpid()})
    events = EventWriter(run.events_jsonl)
    events.write(EventKind.STOP_REQUESTED)
    events.close()
    done, at, seconds = _next_save(run)
    return StopAnswer(str(run.path), run.attempt, holder.process.pid, "after_next_save", done, at, seconds, False)


def stop_now(campaign: Path, *, wait_seconds: float = 20.0) -> StopAnswer:
    """SIGINT the recorded process, if its start time is the recorded one, and wait for its end. Raises Refused."""
    run, holder = _running(campaign)
    if holder.liveness != "alive":
        raise Refused(
            f"process {holder.process.pid} runs on host {holder.process.host}: it can only be interrupted there",
            where=str(run.path),
        )
    holder.process.send(signal.SIGINT)
    deadline = time.monotonic() + wait_seconds
    while holder.liveness == "alive" and time.monotonic() < deadline:
        time.sleep(0.05)
    ended = holder.liveness != "alive"
    done = summarize(run).rollouts_done
    return StopAnswer(str(run.path), run.attempt, holder.process.pid, "now", done, None, None, ended)


def _running(campaign: Path) -> tuple[RunDirectory, LockHolder]:
    holder = lock_holder(campaign)
    if holder is None or holder.liveness == "dead":
        raise Refused(
            f"campaign `{campaign.name}` is not running",
            where=str(campaign),
            hint="`t1 runs` shows what ran and how it ended",
        )
    return RunDirectory(campaign / f"attempt_{holder.attempt}"), holder


def _next_save(run: RunDirectory) -> tuple[int, int | None, float | None]:
    """Rollouts done, rollouts at the next save, seconds until then."""
    summary, spec = summarize(run), saved_spec(run)
    every = spec.get("checkpoint", {}).get("every_rollouts")
    done, planned = summary.rollouts_done, summary.rollouts_planned
    if not isinstance(every, int):
        return done, None, None
    at = (done // every + 1) * every
    at = min(at, planned) if planned else at
    if not done or summary.began is None or summary.sessions != 1:
        return done, at, None
    return done, at, (at - done) * (time.time() - summary.began) / done
