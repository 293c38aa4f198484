"""Whether a recorded job lives without anybody following it: after a killed launcher, or a cluster that was away."""

from __future__ import annotations

from t1cli.cluster.address import ClusterAddress
from t1cli.cluster.jobs import Jobs
from t1cli.errors import CouldNotAsk
from t1cli.launch.backend import Occupation
from t1cli.launch.gates import Refusal
from t1cli.run.directory import RunDirectory
from t1cli.run.events import Event, EventKind, read_events
from t1cli.run.ray_job import RayJob, read_ray_job

JOB_ID = "job"
"""`--accept job` goes on although the former job's end is unknown."""


def occupation_of(run: RunDirectory) -> Occupation | None:
    """None when the newest session has no job, its end is on record, or it never reached the cluster."""
    job = _job_without_an_end(run)
    if job is None:
        return None
    try:
        state = open_jobs(job).state(job.job_id)
    except CouldNotAsk as problem:
        return Occupation(job.job_id, lives=False, refusal=_unknown(job, problem.message))
    if state.status == "ABSENT":
        return Occupation(job.job_id, lives=False, refusal=None)
    return Occupation(job.job_id, state.lives, _running(run, job) if state.lives else None)


def job_lives(run: RunDirectory) -> bool:
    """Whether the newest session's job still runs. Raises CouldNotAsk: a cluster that is away says neither."""
    job = _job_without_an_end(run)
    return job is not None and open_jobs(job).state(job.job_id).lives


def open_jobs(job: RayJob) -> Jobs:
    """The cluster that a job was submitted to. Raises CouldNotAsk."""
    return Jobs.open(ClusterAddress(job.address, job.source))


def _job_without_an_end(run: RunDirectory) -> RayJob | None:
    job = read_ray_job(run)
    return None if job is None or _end_is_known(read_events(run.events_jsonl)) else job


def _end_is_known(events: tuple[Event, ...]) -> bool:
    """Whether an end was written after the last start, other than that the cluster had stopped answering."""
    for event in reversed(events):
        if event.kind is EventKind.ENDED:
            return not event.text("detail").startswith("CouldNotAsk")
        if event.kind is EventKind.LAUNCHED:
            return False
    return True


def _running(run: RunDirectory, job: RayJob) -> Refusal:
    return Refusal(
        JOB_ID,
        f"job {job.job_id} of attempt {run.attempt} is still running, and nobody follows it",
        str(run.path),
        "`--resume` follows it again; `--stop` ends it after its next save",
        acceptable=False,
    )


def _unknown(job: RayJob, problem: str) -> Refusal:
    return Refusal(
        JOB_ID,
        f"job {job.job_id} may still run: {problem}",
        job.address,
        f"start the cluster again, or `--accept {JOB_ID}` if it is gone for good",
    )
