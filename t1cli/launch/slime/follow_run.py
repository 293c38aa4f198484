"""Following one run's job: in this process, or as the program `python -m t1cli.launch.slime.follow_run RUN_DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

from t1cli.launch.backend import End, Job, Progress
from t1cli.launch.slime.follow import Followed, FollowTimes, follow
from t1cli.launch.slime.job_log import JobLog
from t1cli.launch.slime.occupation import open_jobs
from t1cli.launch.slime.saves import Saves
from t1cli.launch.slime.start import owners
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventWriter
from t1cli.run.open_metrics import open_job_metrics
from t1cli.run.ray_job import read_ray_job
from t1cli.run.record import read_record
from t1cli.spec.load import load_experiment


def follow_run(run: RunDirectory, progress: Progress, times: FollowTimes | None = None) -> End:
    """Follow the newest job of a run to its end; see `follow.follow`."""
    job, record = read_ray_job(run), read_record(run)
    assert job is not None, f"{run.path} has no job"
    spec = load_experiment(run.spec_yaml).spec
    events = EventWriter(run.events_jsonl)
    saves = Saves(owners(spec, run, record.family), events)
    try:
        log = JobLog(run, job.job_id, open_job_metrics(run), on_save=saves.logged)
        return follow(
            Followed(run, open_jobs(job), job, saves, events, log, progress, times or FollowTimes.of_environment())
        )
    finally:
        events.close()


def _body(job: Job) -> End:
    from t1cli.launch.slime.occupation import occupation_of

    try:
        return follow_run(job.run, job.progress)
    except KeyboardInterrupt:
        found = occupation_of(job.run)
        if found is not None and (found.lives or found.refusal is not None):
            # A signal to the follower; the job does not depend on it.
            return "detached"
        raise


def main() -> int:
    """`RUN_DIR`: take the lock over and follow."""
    from t1cli.launch.campaign_process import detached_main

    return detached_main([str(Path(sys.argv[1]))], _body)


if __name__ == "__main__":
    raise SystemExit(main())
