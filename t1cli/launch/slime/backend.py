"""slime on Ray: submits a job under our own ID and follows it; the job lives on whatever becomes of its follower."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from t1cli.cluster.address import cluster_address
from t1cli.launch.backend import End, Invocation, Job, Occupation, Started
from t1cli.launch.gates import Refusal
from t1cli.launch.resume import family_digest
from t1cli.launch.slime.compile import compile_session
from t1cli.launch.slime.follow import FollowTimes
from t1cli.launch.slime.follow_run import follow_run
from t1cli.launch.slime.job import SessionPlace, evaluation_before, job_json
from t1cli.launch.slime.occupation import occupation_of
from t1cli.launch.slime.start import owners, start_point
from t1cli.launch.slime.submit import Submission, submit
from t1cli.run.attempts import latest_attempt
from t1cli.run.checkpoint_manifest import Owner
from t1cli.run.claims import claim
from t1cli.run.directory import RunDirectory
from t1cli.run.next_command import stop_command
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.record import read_record
from t1cli.run.redaction import Redactor
from t1cli.secret_names import secrets_of
from t1cli.slime.start_point import StartPoint
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.load import LoadedSpec


class SlimeBackend:
    """Campaigns as Ray jobs."""

    engine = "slime"

    def refusals(self, loaded: LoadedSpec) -> tuple[Refusal, ...]:
        """What no cluster has to be asked for: its address, secrets on their way into a job's metadata.

        Raises BadInput for an environment that the follower could not use: it would end after the job was submitted.
        """
        FollowTimes.of_environment()
        return (*_address_refusals(loaded), *_secret_refusals(loaded))

    def invocation(self, loaded: LoadedSpec, run: RunDirectory) -> Invocation:
        """The next session's command, environment, role file and job, without secrets; nothing is written."""
        family = family_digest(loaded)
        known = run.record_json.exists()
        start = start_point(loaded.spec, run, family, seal=False) if known else StartPoint()
        session = len(read_record(run).sessions) + 1 if run.record_json.exists() else 1
        compiled = compile_session(loaded.spec, run, start)
        place = SessionPlace(run, session, family, loaded.digest)
        redactor = Redactor.of_environment(None, loaded.spec.model_dump(mode="json"))
        first = evaluation_before(compiled, place)
        return Invocation(
            redactor.argv(compiled.argv),
            redactor.json(dict(compiled.env)),
            redactor.json(compiled.role_file) if compiled.role_file is not None else None,
            redactor.json(job_json(loaded.spec, place, compiled)),
            None if first is None else redactor.argv(first),
        )

    def occupation(self, campaign: Path) -> Occupation | None:
        """A job of this campaign's latest attempt whose end is not on record."""
        run = latest_attempt(campaign)
        found = None if run is None else occupation_of(run)
        if run is None or found is None:
            return None
        return replace(found, follow=lambda job: follower(run, found.job_id, job))

    def start(self, job: Job) -> Started:
        """Claim the checkpoint directories, put the job on record, submit it, follow it."""
        record = read_record(job.run)
        place = SessionPlace(job.run, record.session.number, record.family, record.session.digest)
        start = start_point(job.spec, job.run, record.family) if job.resume else StartPoint()
        for directory, owner in owners(job.spec, job.run, record.family).items():
            _claim_visible(directory, owner)
        session = Submission(place, compile_session(job.spec, job.run, start), f"t1-{job.spec.name}-a{job.run.attempt}")
        return follower(job.run, submit(job, session, record.session.accepted), job)


def follower(run: RunDirectory, job_id: str, job: Job) -> Started:
    """A follower in a session of its own, or ready to run here; here, Ctrl-C hands over to one of the first kind."""
    if job.detach:
        return Started(job_id, detached_follower(run))
    return Started(job_id, ProcessIdentity.of(), foreground=lambda: _follow_here(run, job))


def detached_follower(run: RunDirectory) -> ProcessIdentity:
    """A process that follows this run's job; it takes the lock over from this one. Raises BadInput."""
    FollowTimes.of_environment()
    run.logs.mkdir(parents=True, exist_ok=True)
    with run.process_log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "t1cli.launch.slime.follow_run", str(run.path)],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return ProcessIdentity.of(process.pid)


def _follow_here(run: RunDirectory, job: Job) -> End:
    try:
        return follow_run(run, job.progress)
    except KeyboardInterrupt:
        found = occupation_of(run)
        if found is None or (not found.lives and found.refusal is None):
            # Not a signal to this process: somebody stopped the job itself.
            raise
    # Ctrl-C ends the watching, not 128 GPUs' work; `--stop` ends that.
    from t1cli.run.lock import hand_over, mutex

    with mutex(run.path.parent):
        hand_over(run, detached_follower(run))
    job.progress(f"the job goes on and is followed in the background; `{stop_command(run)}` ends it after a save")
    return "detached"


def _address_refusals(loaded: LoadedSpec) -> tuple[Refusal, ...]:
    assert isinstance(loaded.spec.engine, SlimeEngine)
    if cluster_address(loaded.spec.engine.ray_address) is not None:
        return ()
    fix = "`--set engine.ray_address=http://HEAD:8265`, or RAY_ADDRESS in the environment"
    where = loaded.where("engine.ray_address")
    return (Refusal("engine", "no Ray cluster is named to submit to", where, fix, acceptable=False),)


def _secret_refusals(loaded: LoadedSpec) -> tuple[Refusal, ...]:
    """A job's environment is shown in Ray's dashboard and kept in its logs."""
    assert isinstance(loaded.spec.engine, SlimeEngine)
    return tuple(
        Refusal(
            "secret",
            f"engine.env.{name} looks like a secret, and Ray shows a job's environment to everybody",
            loaded.where(f"engine.env.{name}"),
            f"export {name} for `ray start` on the nodes instead: jobs inherit it",
            acceptable=False,
        )
        for name in secrets_of(loaded.spec.engine.env)
    )


def _claim_visible(directory: Path, owner: Owner) -> None:
    """Claim a directory that can be made from here; where it cannot, the job itself claims it before it trains."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    claim(directory, owner)
