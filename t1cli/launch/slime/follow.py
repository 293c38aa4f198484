"""Follows a Ray job: its log, metrics, saves and state into the run directory, and a stop request to the cluster.

The job does not depend on its follower: one that is killed leaves the job running, and `t1 launch --resume` follows it
again from where the record ends.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

from t1cli.cluster.jobs import Jobs, JobState, LogTail
from t1cli.errors import BadInput, CouldNotAsk, T1Error
from t1cli.launch.backend import End, Progress
from t1cli.launch.slime.job_log import JobLog
from t1cli.launch.slime.saves import Saves
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.next_command import resume_command
from t1cli.run.ray_job import RayJob
from t1cli.run.rollout_number import rollout_number
from t1cli.spec.command_line import command_line


@dataclass(frozen=True)
class FollowTimes:
    """Every wait of a follower, in seconds."""

    poll_seconds: float = 2.0
    patience_seconds: float = 600.0
    """How long an unreachable cluster is asked again; a dashboard restarts, a network comes back."""
    stop_seconds: float = 120.0
    """From asking a job to stop until it has ended."""
    drain_seconds: float = 10.0
    """For the rest of an ended job's log."""

    @classmethod
    def of_environment(cls) -> FollowTimes:
        """T1_FOLLOW_POLL_SECONDS and T1_FOLLOW_PATIENCE_SECONDS where they are set. Raises BadInput."""
        poll = _seconds("T1_FOLLOW_POLL_SECONDS", cls.poll_seconds)
        return cls(poll, _seconds("T1_FOLLOW_PATIENCE_SECONDS", cls.patience_seconds))


def _seconds(variable: str, otherwise: float) -> float:
    text = os.environ.get(variable, "")
    try:
        seconds = float(text or otherwise)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise BadInput(f"{variable} is {text!r}, expected seconds", variable, f"`unset {variable}` for {otherwise:g}")
    return seconds


class JobFailed(T1Error):
    """The cluster says that the job failed."""


@dataclass
class Followed:
    """What a follower works on."""

    run: RunDirectory
    jobs: Jobs
    job: RayJob
    saves: Saves
    events: EventWriter
    log: JobLog
    progress: Progress
    times: FollowTimes = FollowTimes()


def follow(followed: Followed) -> End:
    """Until the job has ended: `finished`, or `stopped` after a save on request.

    Raises JobFailed when it failed, KeyboardInterrupt when somebody stopped it at once, CouldNotAsk when the cluster
    has been away for too long (the job may still run).
    """
    tail = followed.jobs.tail(followed.job.job_id, skip_characters=followed.log.position)
    try:
        return _Follower(followed, tail).run()
    finally:
        tail.close()
        followed.log.close()


class _Follower:
    def __init__(self, followed: Followed, tail: LogTail) -> None:
        self._f, self._tail = followed, tail
        self._status = ""
        self._asked_to_stop_at: int | None = None
        self._stop_requested = False
        self._stopping = False
        self._reached = time.monotonic()

    def run(self) -> End:
        while True:
            state = self._state()
            self._take(self._tail.take())
            if state is not None and not state.lives:
                return self._end(state)
            self._consider_stopping()
            time.sleep(self._f.times.poll_seconds)

    @property
    def _resume(self) -> str:
        return resume_command(self._f.run, None)

    def _state(self) -> JobState | None:
        """The job's state; None while the cluster does not answer and patience lasts."""
        try:
            state = self._f.jobs.state(self._f.job.job_id)
        except CouldNotAsk as problem:
            away_seconds = time.monotonic() - self._reached
            self._tell("UNREACHABLE", problem.message)
            if away_seconds > self._f.times.patience_seconds:
                raise CouldNotAsk(
                    f"the cluster has not answered for {away_seconds:.0f} s; job {self._f.job.job_id} may still run",
                    where=self._f.job.address,
                    hint=f"`{self._resume}` follows it again, or goes on from the last save if the cluster lost it",
                ) from problem
            return None
        self._reached = time.monotonic()
        self._tell(state.status, state.message)
        return state

    def _tell(self, status: str, detail: str) -> None:
        if status != self._status:
            self._status = status
            self._f.events.write(EventKind.JOB, job_id=self._f.job.job_id, status=status, detail=detail[:2000])
            self._f.progress(f"job {self._f.job.job_id} {status.lower()}")

    def _take(self, text: str) -> None:
        for line in self._f.log.write(text):
            self._f.progress(line)
        for line in self._f.saves.look():
            self._f.progress(line)

    def _consider_stopping(self) -> None:
        if self._stopping or not self._f.run.stop_request.exists():
            return
        saved = self._f.saves.complete
        if not self._stop_requested:
            self._stop_requested, self._asked_to_stop_at = True, saved
            self._f.progress("stop requested: after the next save")
        elif saved is not None and (self._asked_to_stop_at is None or saved > self._asked_to_stop_at):
            self._stopping = True
            self._f.progress(f"rollout {rollout_number(saved)} is saved: stopping the job")
            self._f.jobs.stop(self._f.job.job_id, wait_seconds=self._f.times.stop_seconds)

    def _end(self, state: JobState) -> End:
        self._take(self._tail.drain(wait_seconds=0.0 if state.status == "ABSENT" else self._f.times.drain_seconds))
        self._f.saves.seal()
        if state.status == "SUCCEEDED":
            return "finished"
        if state.status == "STOPPED" and self._stopping:
            return "stopped"
        if state.status == "STOPPED":
            raise KeyboardInterrupt
        if state.status == "ABSENT":
            raise JobFailed(
                f"the cluster no longer knows job {state.job_id}: its head was started anew, and the job went with it",
                where=self._f.job.address,
                hint=f"`{self._resume}` goes on from the last save",
            )
        raise JobFailed(
            f"job {state.job_id} failed: {state.message or 'the cluster gives no reason'}",
            hint=f"`{command_line('logs', str(self._f.run.path))}` shows its log",
        )
