"""The life of the process that runs a campaign: signals, lock, and an end that is always on record."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from t1cli.errors import ExitCode, Refused, T1Error
from t1cli.launch.backend import End, Job, Progress
from t1cli.launch.campaign_log import CampaignLog
from t1cli.machine_problem import machine_problem
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.lock import hand_over, lock_holder, mutex, release
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.redacted_output import redacted_output

RESUME_OPTION: Final = "--resume"


def detached_main(arguments: Sequence[str], body: Callable[[Job], End]) -> int:
    """`RUN_DIR [--resume]`: take the lock over from the launcher, run `body` to its end, answer with an exit code."""
    with redacted_output():
        return _exit_code_of(arguments, body)


def _exit_code_of(arguments: Sequence[str], body: Callable[[Job], End]) -> int:
    try:
        _run_detached(RunDirectory(Path(arguments[0])), RESUME_OPTION in arguments[1:], body)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except T1Error as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_code
    except OSError as problem:
        known = machine_problem(problem)
        print(f"error: {known.message}" if known else f"error: bug in t1: {problem!r}", file=sys.stderr)
        return known.exit_code if known else ExitCode.BUG
    except Exception as bug:
        # The boundary of this process; the traceback stands in the campaign's log.
        print(f"error: bug in t1: {type(bug).__name__}: {bug}", file=sys.stderr)
        return ExitCode.BUG
    return ExitCode.YES


def _run_detached(run: RunDirectory, resume: bool, body: Callable[[Job], End]) -> None:
    from t1cli.spec.load import load_experiment

    adopt_lock(run)
    with log_of(run) as log:
        job = Job(run, load_experiment(run.spec_yaml).spec, resume, detach=False, progress=log)
        run_to_its_end(run, lambda: body(job), log)


def run_to_its_end(run: RunDirectory, body: Callable[[], End], log: CampaignLog) -> None:
    """Run a campaign in this process. However it ends, the end is recorded and the lock given back."""
    events = EventWriter(run.events_jsonl)
    try:
        with interruptible():
            outcome = body()
        if outcome == "detached":
            events.write(EventKind.NOTE, message="nobody follows the campaign from here any more; it goes on")
        else:
            events.write(EventKind.ENDED, outcome=outcome, detail="")
    except KeyboardInterrupt:
        events.write_if_possible(EventKind.ENDED, outcome="interrupted", detail="by a signal")
        log.only_log("interrupted")
        raise
    except BaseException as failure:
        # The boundary of a campaign: whatever it was goes on record, then to the caller as it is.
        detail = f"{type(failure).__name__}: {failure}"
        events.write_if_possible(EventKind.ENDED, outcome="failed", detail=detail)
        log.only_log("".join(traceback.format_exception(failure)).rstrip())
        raise
    finally:
        events.close()
        release(run)


@contextmanager
def log_of(run: RunDirectory, echo: Progress | None = None) -> Iterator[CampaignLog]:
    """The campaign's log, closed at the end."""
    log = CampaignLog(run.campaign_log, echo=echo)
    try:
        yield log
    finally:
        log.close()


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt, even where a shell started us with SIGINT ignored."""

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def adopt_lock(run: RunDirectory) -> None:
    """Hold the lock that the launching process took for this attempt. Raises Refused when another process lives."""
    me = ProcessIdentity.of()
    with mutex(run.path.parent):
        holder = lock_holder(run.path.parent)
        if holder is not None and holder.process != me and holder.liveness == "alive":
            handed = holder.attempt == run.attempt and holder.process.pid == os.getppid()
            if not handed:
                raise Refused(f"run {run.path} is held by process {holder.process.pid}", where=str(run.path))
        hand_over(run, me)
