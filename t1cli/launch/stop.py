"""`--stop`: ask a running campaign to end after its next save, or interrupt exactly its process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from t1cli.errors import Refused
from t1cli.launch.slime.backend import detached_follower
from t1cli.launch.slime.occupation import job_lives, open_jobs
from t1cli.records import write_json
from t1cli.run.attempts import latest_attempt
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter, read_events
from t1cli.run.lock import LockHolder, hand_over, lock_holder, mutex, take
from t1cli.run.next_command import stop_command
from t1cli.run.ray_job import read_ray_job
from t1cli.run.run_files import saved_spec
from t1cli.run.summary import summarize
from t1cli.spec.command_line import command_line

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
    """Whether the process or the job was seen to end (`now` only)."""
    job_id: str = ""
    """The Ray job; empty for a process of this machine."""
    lost_rollouts: tuple[int, ...] = ()
    """Rollouts behind the last save, the one under way included: what stopping at once throws away."""

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}


def stop_after_next_save(campaign: Path) -> StopAnswer:
    """Leave a stop request for the running attempt. Raises Refused when none runs, CouldNotAsk when that is unknown."""
    if (unfollowed := unfollowed_job(campaign)) is not None:
        follow_again(unfollowed)
    run, holder = _running(campaign)
    write_json(run.stop_request, {"requested_at": time.time(), "by_pid": os.getpid()})
    events = EventWriter(run.events_jsonl)
    events.write(EventKind.STOP_REQUESTED)
    events.close()
    done, at, seconds = _next_save(run)
    job = read_ray_job(run)
    return StopAnswer(
        str(run.path),
        run.attempt,
        holder.process.pid,
        "after_next_save",
        done,
        at,
        seconds,
        False,
        job_id=job.job_id if job else "",
    )


def stop_now(campaign: Path, *, wait_seconds: float = 20.0) -> StopAnswer:
    """End it at once and wait: a Ray job by its ID, else SIGINT to exactly the recorded process. Raises Refused."""
    run = latest_attempt(campaign)
    if run is not None and read_ray_job(run) is not None:
        return _stop_job_now(run, wait_seconds=max(wait_seconds, 60.0))
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


def _stop_job_now(run: RunDirectory, *, wait_seconds: float) -> StopAnswer:
    holder, job = lock_holder(run.path.parent), read_ray_job(run)
    assert job is not None
    done, lost = summarize(run).rollouts_done, _lost(run)
    jobs = open_jobs(job)
    if not jobs.state(job.job_id).lives:
        hint = f"`{command_line('status', str(run.path))}` shows how it ended"
        raise Refused(f"job {job.job_id} is not running", where=str(run.path), hint=hint)
    ended = not jobs.stop(job.job_id, wait_seconds=wait_seconds).lives
    pid = holder.process.pid if holder is not None else 0
    return StopAnswer(
        str(run.path), run.attempt, pid, "now", done, None, None, ended, job_id=job.job_id, lost_rollouts=lost
    )


def _lost(run: RunDirectory) -> tuple[int, ...]:
    """From the one behind the newest save that every role has, to the one under way."""
    by_role: dict[str, int] = {}
    for event in read_events(run.events_jsonl):
        if event.kind is EventKind.CHECKPOINT:
            by_role[event.text("role")] = int(event.number("rollout"))
    roles = 2 if saved_spec(run).get("algorithm", {}).get("kind") == "ppo" else 1
    first = min(by_role.values()) if len(by_role) == roles else 0
    return tuple(range(first, summarize(run).rollouts_done + 1))


def unfollowed_job(campaign: Path) -> RunDirectory | None:
    """The latest attempt, when its job lives and its follower does not. Raises CouldNotAsk."""
    run, holder = latest_attempt(campaign), lock_holder(campaign)
    if run is None or (holder is not None and holder.liveness != "dead") or read_ray_job(run) is None:
        return None
    return run if job_lives(run) else None


def follow_again(run: RunDirectory) -> None:
    """Start a follower in the background for a job that has none: somebody has to wait for its save."""
    with mutex(run.path.parent):
        take(run, stop_command=stop_command(run))
        hand_over(run, detached_follower(run))


def _running(campaign: Path) -> tuple[RunDirectory, LockHolder]:
    holder = lock_holder(campaign)
    if holder is None or holder.liveness == "dead":
        raise Refused(
            f"campaign `{campaign.name}` is not running",
            where=str(campaign),
            hint=f"`{command_line('runs', runs_dir=campaign.parent)}` shows what ran and how it ended",
        )
    return RunDirectory(campaign / f"attempt_{holder.attempt}"), holder


def _expected_seconds(spec: Mapping[str, Any], rollouts: int) -> float | None:
    """From the spec's own figures, while nothing has been measured."""
    rollout = spec.get("rollout", {})
    parts = [rollout.get("expected_seconds"), rollout.get("expected_train_seconds")]
    known = [float(part) for part in parts if isinstance(part, int | float)]
    return rollouts * sum(known) if known else None


def _next_save(run: RunDirectory) -> tuple[int, int | None, float | None]:
    """Rollouts done, rollouts at the next save, seconds until then."""
    summary, spec = summarize(run), saved_spec(run)
    every = spec.get("checkpoint", {}).get("every_rollouts")
    done, planned = summary.rollouts_done, summary.rollouts_planned
    if not isinstance(every, int):
        return done, None, None
    at = (done // every + 1) * every
    at = min(at, planned) if planned else at
    if not done or summary.began is None or summary.resumed or summary.sessions != 1:
        return done, at, _expected_seconds(spec, at - done)
    return done, at, (at - done) * (time.time() - summary.began) / done
