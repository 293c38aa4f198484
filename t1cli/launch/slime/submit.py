"""Submitting one job of t1 to a cluster: on record first, under our own ID, and never beside a job of the same name."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from t1cli.cluster.address import ClusterAddress, cluster_address
from t1cli.cluster.jobs import JobRequest, Jobs, JobState
from t1cli.errors import Refused
from t1cli.launch.backend import Job
from t1cli.launch.slime.compile import Compiled
from t1cli.launch.slime.job import SessionPlace, job_json, write_job_files
from t1cli.launch.slime.running_limits import refuse_low_limits
from t1cli.run.directory import RunDirectory
from t1cli.run.next_command import stop_command
from t1cli.run.ray_job import RayJob
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.experiment import ExperimentSpec


@dataclass(frozen=True)
class Submission:
    """What is submitted."""

    place: SessionPlace
    compiled: Compiled
    job_name: str
    """What the job's ID begins with."""
    beside: tuple[str, ...] = ()
    """Other campaigns that must not run on the cluster at the same time, unless `running` is accepted."""


def submit(job: Job, submission: Submission, accepted: Collection[str]) -> str:
    """Submit it and return the job's ID. Raises Refused when the cluster is taken or its limits are too low."""
    place, compiled = submission.place, submission.compiled
    address = named_address(job.spec)
    jobs = Jobs.open(address)
    for name in (job.spec.name, *(() if "running" in accepted else submission.beside)):
        _refuse_second(jobs, name)
    refuse_low_limits(jobs, job.spec, accepted=accepted, progress=job.progress)
    directory = write_job_files(job.spec, place, compiled)
    described = job_json(job.spec, place, compiled)
    job_id = f"{submission.job_name}-s{place.session}-{secrets.token_hex(3)}"
    # On record first: a submission that nobody remembers could never be stopped by its ID.
    RayJob(job_id, address.text, address.source, place.session, time.time()).save(job.run)
    runtime_env = {**described["runtime_env"], "working_dir": str(directory)}
    jobs.submit(JobRequest(job_id, described["entrypoint"], runtime_env, described["metadata"]))
    job.progress(f"submitted job {job_id} to {address.text}")
    return job_id


def named_address(spec: ExperimentSpec) -> ClusterAddress:
    """The cluster that a spec or the environment names. Raises Refused when none is named."""
    assert isinstance(spec.engine, SlimeEngine)
    address = cluster_address(spec.engine.ray_address)
    if address is None:
        raise Refused("no cluster is named", hint="engine.ray_address, or RAY_ADDRESS in the environment")
    return address


def _refuse_second(jobs: Jobs, name: str) -> None:
    living = jobs.living({"t1_campaign": name})
    if living:
        first = living[0]
        raise Refused(
            f"campaign `{name}` runs on this cluster already, as job {first.job_id} ({first.status.lower()})",
            where=first.metadata.get("t1_run_dir", jobs.address),
            hint=f"{_stop_hint(first)}; another `name` starts a campaign beside it",
        )


def _stop_hint(job: JobState) -> str:
    """Its run directory may lie on another machine."""
    run_dir = job.metadata.get("t1_run_dir")
    if run_dir is None:
        return f"`ray job stop {job.job_id}` ends it at once"
    return f"`{stop_command(RunDirectory(Path(run_dir)))}`, where it was launched, ends it after its next save"
