"""Following a job again whose launcher was killed: the same session goes on in the same record."""

from __future__ import annotations

from t1cli.errors import T1Error
from t1cli.launch.backend import Job, Occupation
from t1cli.launch.campaign_process import log_of, run_to_its_end
from t1cli.launch.proposal import Dialogue, LaunchOptions, stop_command
from t1cli.launch.resume import attempt_to_resume
from t1cli.run.attempts import latest_attempt, point_latest
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import hand_over, mutex, release, take
from t1cli.run.record import RunRecord
from t1cli.run.run_files import grounded_spec
from t1cli.spec.load import LoadedSpec


def reattach(loaded: LoadedSpec, options: LaunchOptions, dialogue: Dialogue, occupation: Occupation) -> RunRecord:
    """Take the lock over and follow the living job; in the foreground, until it has ended.

    Raises Refused when the spec is another campaign's, and whatever following raises.
    """
    run, record = attempt_to_resume(options.runs_root / loaded.spec.name, loaded)
    _take(run, loaded, options)
    point_latest(run)
    _follow(loaded, options, dialogue, occupation, (run, record))
    return record


def settle(loaded: LoadedSpec, options: LaunchOptions, dialogue: Dialogue, occupation: Occupation) -> None:
    """Bring the record of an ended job to its end: the rest of its log, and how it ended."""
    run = latest_attempt(options.runs_root / loaded.spec.name)
    if run is None or occupation.follow is None:
        return
    _take(run, loaded, options)
    try:
        with log_of(run, echo=dialogue.progress) as progress:
            started = occupation.follow(Job(run, grounded_spec(loaded), True, False, progress))
            assert started.foreground is not None
            run_to_its_end(run, started.foreground, progress)
    except (T1Error, KeyboardInterrupt) as end:
        # How the former session ended is on record now; it is no failure of this launch.
        dialogue.progress(f"the former session has ended: {end or 'it was stopped'}")
    finally:
        release(run)


def _follow(
    loaded: LoadedSpec,
    options: LaunchOptions,
    dialogue: Dialogue,
    occupation: Occupation,
    found: tuple[RunDirectory, RunRecord],
) -> None:
    run, record = found
    assert occupation.follow is not None
    try:
        with log_of(run, echo=dialogue.progress) as progress:
            progress(f"following job {occupation.job_id} again")
            started = occupation.follow(Job(run, grounded_spec(loaded), True, options.detach, progress))
            if started.foreground is None:
                with mutex(run.path.parent):
                    hand_over(run, started.owner)
            dialogue.started(record)
            if started.foreground is not None:
                run_to_its_end(run, started.foreground, progress)
    finally:
        release(run)


def _take(run: RunDirectory, loaded: LoadedSpec, options: LaunchOptions) -> None:
    with mutex(run.path.parent):
        take(run, stop_command=stop_command(loaded, options))
