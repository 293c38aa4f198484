"""Stopping a run: a countdown that a person can end, then a request to end after the next save, then a report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from t1cli.errors import CouldNotAsk, T1Error
from t1cli.launch.stop import stop_after_next_save
from t1cli.records import read_json, write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.run_files import saved_spec
from t1cli.watch.actions.evidence import write_evidence
from t1cli.watch.actions.gpus_left import gpus_left, told
from t1cli.watch.actions.journal import Journal, watch_dir
from t1cli.watch.engine import Alert
from t1cli.watch.result import WatchResult

LONGEST_GRACE_SECONDS = 300.0
RETRY_SECONDS = 30.0
"""Between two tries to ask a cluster that did not answer."""


@dataclass(frozen=True)
class Countdown:
    """A stop that will be asked for unless somebody says no."""

    key: str
    rule: str
    step: int
    says: str
    at: float
    """Unix seconds."""


class StopAction:
    """Turns the first firing stop rule into a stop after the next save, when that is allowed.

    `grace_seconds` None means twice the run's usual rollout, at most five minutes. All state is on disk: a watcher
    that is restarted goes on counting, and asks once.
    """

    def __init__(
        self,
        run: RunDirectory,
        journal: Journal,
        *,
        allowed: bool,
        grace_seconds: float | None = None,
        clock: Callable[[], float] = time.time,
        request: Callable[[RunDirectory], Any] = lambda run: stop_after_next_save(run.path.parent),
    ) -> None:
        self._run = run
        self._journal = journal
        self._allowed = allowed
        self._grace = grace_seconds
        self._clock = clock
        self._request = request
        self._file = watch_dir(run) / "countdown.json"
        self._trouble = ""

    @property
    def countdown(self) -> Countdown | None:
        """The countdown that runs, if one does."""
        found = read_json(self._file)
        return Countdown(**found) if found else None

    def consider(self, alert: Alert, usual_seconds: float | None = None) -> Countdown | None:
        """Begin to count down if this alert says stop and it may. Refuses where nothing would be saved first."""
        if alert.severity != "stop" or not self._allowed or self._run.stop_request.exists():
            return None
        if self._journal.has("stop", alert.key) or self._journal.has("acknowledged", alert.key) or self.countdown:
            return None
        if not saved_spec(self._run).get("checkpoint", {}).get("every_rollouts", 1):
            self._journal.note("stop", alert.key, refused="the run saves no checkpoints")
            return None
        grace = min(LONGEST_GRACE_SECONDS, 2 * (usual_seconds or 0.0)) if self._grace is None else self._grace
        begun = Countdown(alert.key, alert.rule, alert.step, alert.says, self._clock() + grace)
        write_json(self._file, begun.__dict__)
        return begun

    def tick(self, result: Callable[[], WatchResult]) -> str:
        """Ask for the stop once the countdown is over; returns what was done, for the terminal."""
        waiting = self.countdown
        if waiting is None:
            return ""
        if acknowledged(self._run, waiting.key):
            self._file.unlink(missing_ok=True)
            self._journal.note("acknowledged", waiting.key)
            return f"stop by {waiting.rule} was called off"
        if self._clock() < waiting.at:
            return ""
        try:
            # A watcher that was killed right after asking must not ask again.
            if not self._run.stop_request.exists():
                self._request(self._run)
        except CouldNotAsk as problem:
            # Whether it runs is unknown: a cluster that is away for a moment calls nothing off.
            return self._wait_on(waiting, problem.message)
        except T1Error as error:
            self._file.unlink(missing_ok=True)
            self._journal.note("stop", waiting.key, refused=error.message)
            return f"stop by {waiting.rule} was not possible: {error.message}"
        evidence = write_evidence(self._run, waiting.key, result())
        self._journal.note("stop", waiting.key, rule=waiting.rule, evidence=str(evidence))
        self._file.unlink(missing_ok=True)
        return f"asked the run to stop after its next save: {waiting.rule}; evidence in {evidence}"

    def _wait_on(self, waiting: Countdown, problem: str) -> str:
        """Ask again later; told once for as long as nothing else goes wrong."""
        write_json(self._file, replace(waiting, at=self._clock() + RETRY_SECONDS).__dict__)
        told, self._trouble = self._trouble, problem
        return f"stop by {waiting.rule} is tried again: {problem}" if problem != told else ""

    def report(self, result: WatchResult) -> str:
        """Once the run has ended after our request: what was stopped, why, where to go on, who holds GPUs.

        Returns what to tell; empty when nothing is written now.
        """
        path = watch_dir(self._run) / "stop_report.json"
        asked = sorted(self._journal.keys("stop"))
        if not asked or path.exists() or not self._run.stop_request.exists():
            return ""
        left = gpus_left(self._run)
        write_json(path, {"format_version": 1, "asked_for": asked, "run_state": result.run_state,
                          "gpus": left, "watch": result.to_json()})  # fmt: skip
        return f"stop report in watch/stop_report.json of the run; {told(left)}"


def acknowledge(run: RunDirectory) -> str:
    """Call off what is counting down, and end a pause; returns what was called off."""
    found = read_json(watch_dir(run) / "countdown.json")
    paused = run.pause_request.exists()
    run.pause_request.unlink(missing_ok=True)
    if found:
        write_json(watch_dir(run) / "acknowledged.json", {"keys": [found["key"]]})
    return ", ".join([*([f"stop by {found['rule']}"] if found else []), *(["pause"] if paused else [])])


def acknowledged(run: RunDirectory, key: str) -> bool:
    """Whether a person has said no to this alert's stop."""
    found = read_json(watch_dir(run) / "acknowledged.json") or {}
    return key in found.get("keys", ())
