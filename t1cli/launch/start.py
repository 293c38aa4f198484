"""The start itself, once every gate has said yes: lock, directory, files, backend."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from t1cli.errors import Refused
from t1cli.launch.backend import Backend, Job, Started
from t1cli.launch.campaign_process import log_of, run_to_its_end
from t1cli.launch.proposal import Dialogue, LaunchOptions, Proposal, stop_command
from t1cli.launch.resume import attempt_to_resume, family_digest
from t1cli.run.attempts import create_attempt, point_latest
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.lock import hand_over, lock_holder, mutex, refuse_if_held, release, take
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.record import RunRecord, Session, describe_session, save_record
from t1cli.run.redaction import Redactor, assigned_secrets, secret_values
from t1cli.run.run_files import grounded_spec, set_aside_for_resume, write_run_files
from t1cli.run.save_directories import newest_saved_rollout, save_directories
from t1cli.spec.load import LoadedSpec


class Start:
    """What happens once everything has said yes."""

    def __init__(
        self, loaded: LoadedSpec, options: LaunchOptions, dialogue: Dialogue, backend: Backend, proposal: Proposal
    ) -> None:
        self._loaded = loaded
        self._options = options
        self._dialogue = dialogue
        self._backend = backend
        self._proposal = proposal
        self._redactor = redactor_for(loaded)

    def go(self) -> RunRecord:
        """Claim, write, start; in the foreground, run to the end."""
        run, record = self._claim()
        try:
            with log_of(run, echo=self._dialogue.progress) as progress:
                job = Job(run, grounded_spec(self._loaded), self._options.resume, self._options.detach, progress)
                record, started = self._begin(job, record)
                if started.foreground is not None:
                    run_to_its_end(run, started.foreground, progress)
        finally:
            release(run)
        return record

    def _begin(self, job: Job, record: RunRecord) -> tuple[RunRecord, Started]:
        """Files and backend; a start that fails leaves an end on record."""
        events = EventWriter(job.run.events_jsonl, redactor=self._redactor)
        session = record.session
        resumed = {"resumed": self._options.resume, "resumed_from_rollout": session.resumed_from_rollout}
        events.write(EventKind.LAUNCHED, session=session.number, **resumed)
        try:
            plan, preflight = self._proposal.plan, self._proposal.preflight
            write_run_files(job.run, self._loaded, plan=plan, preflight=preflight, redactor=self._redactor)
            save_record(job.run, record, self._redactor)
            started = self._backend.start(job)
            return self._record_start(job.run, record, started), started
        except BaseException as failure:
            detail = f"it did not start: {type(failure).__name__}: {failure}"
            events.write_if_possible(EventKind.ENDED, outcome="failed", detail=detail)
            raise
        finally:
            events.close()

    def _claim(self) -> tuple[RunDirectory, RunRecord]:
        """Lock and directory, taken together: of two launches at the same moment one gets both."""
        campaign = self._options.runs_root / self._loaded.spec.name
        try:
            campaign.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            hint = "`--runs-dir` or T1_RUNS_DIR names another place"
            raise Refused(f"cannot make a run directory: {problem.strerror}", str(campaign), hint) from problem
        stop = stop_command(self._loaded, self._options)
        with mutex(campaign):
            refuse_if_held(campaign, stop_command=stop)
            if not self._options.resume:
                run = create_attempt(campaign)
                take(run, stop_command=stop)
                return run, self._first_record(run)
            run, former = attempt_to_resume(campaign, self._loaded)
            take(run, stop_command=stop)
            set_aside_for_resume(run, former.session.number)
            point_latest(run)
            checkpoint = newest_saved_rollout(save_directories(self._loaded.spec, run))
            session = replace(self._session(former.session.number + 1), resumed_from_rollout=checkpoint)
            return run, former.resumed(session, job_id="")

    def _first_record(self, run: RunDirectory) -> RunRecord:
        spec = self._loaded.spec
        return RunRecord(
            name=spec.name,
            attempt=run.attempt,
            run_dir=str(run.path),
            spec_path=str(self._loaded.path.resolve()),
            digest=self._loaded.digest,
            family=family_digest(self._loaded),
            engine=self._backend.engine,
            job_id="",
            sessions=(self._session(1),),
        )

    def _session(self, number: int) -> Session:
        return describe_session(
            number=number,
            digest=self._loaded.digest,
            spec_path=self._loaded.path,
            accepted=self._proposal.accepted,
            redactor=self._redactor,
        )

    def _record_start(self, run: RunDirectory, record: RunRecord, started: Started) -> RunRecord:
        record = replace(record, job_id=started.job_id)
        save_record(run, record, self._redactor)
        with mutex(run.path.parent):
            holder = lock_holder(run.path.parent)
            # Only our own lock: a short campaign may have ended, and somebody else begun, in the meantime.
            if holder is not None and holder.process == ProcessIdentity.of():
                hand_over(run, started.owner)
        self._dialogue.started(record)
        return record


def redactor_for(loaded: LoadedSpec) -> Redactor:
    """Knows the secrets of the environment, of the spec and of this command line."""
    values = secret_values(dict(os.environ)) | secret_values(loaded.spec.model_dump(mode="json"))
    return Redactor(values | assigned_secrets(sys.argv))
