"""The in-process fake of a backend: no network, no model, but the same files, signals, stop requests and resumes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from t1cli.launch.backend import End, Invocation, Job, Occupation, Started
from t1cli.launch.gates import Refusal
from t1cli.records import write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.measured import Measured, write_measured
from t1cli.run.metric_names import CHECKS_PASSED, EXPLAINED_VARIANCE, LOGPROB_GAP, REWARD, TRIALS, TRIALS_FAILED
from t1cli.run.open_metrics import open_metrics
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.save_directories import newest_saved_rollout, save_directories
from t1cli.spec.load import LoadedSpec


@dataclass
class FakeBackend:
    """Pretends to run a campaign in this process. `before_rollout` may raise, block or kill."""

    engine: str = "fake"
    before_rollout: Callable[[int], None] = lambda rollout: None
    reasons: tuple[Refusal, ...] = ()
    evaluation: Measured | None = None
    """What an evaluation finds; with it, that is all a job does."""
    jobs: list[Job] = field(default_factory=list)
    """Every job that was started."""

    def refusals(self, loaded: LoadedSpec) -> tuple[Refusal, ...]:
        """What it was told to refuse with."""
        return self.reasons

    def invocation(self, loaded: LoadedSpec, run: RunDirectory) -> Invocation:
        """A command that names the run directory."""
        return Invocation(("fake-campaign", str(run.path)), {}, None)

    def occupation(self, campaign: Path) -> Occupation | None:
        """None: the lock's process is the campaign itself."""
        return None

    def start(self, job: Job) -> Started:
        """Ready to run here."""
        self.jobs.append(job)
        me = ProcessIdentity.of()
        return Started(f"pid:{me.pid}", me, foreground=lambda: self._run(job))

    def _run(self, job: Job) -> End:
        if self.evaluation is not None:
            self.before_rollout(0)
            write_measured(job.run.path, self.evaluation)
            return "finished"
        events = EventWriter(job.run.events_jsonl)
        metrics = open_metrics(job.run, job.spec, events)
        first = (newest_saved_rollout(save_directories(job.spec, job.run)) or 0) if job.resume else 0
        try:
            for rollout in range(first, job.spec.rollout.num_rollouts):
                with events.phase("generate"):
                    self.before_rollout(rollout)
                metrics.rollout(rollout, _rollout_metrics(rollout))
                metrics.train(rollout, {EXPLAINED_VARIANCE: 0.1 * rollout, LOGPROB_GAP: 0.01})
                job.progress(f"rollout {rollout}")
                if (rollout + 1) % job.spec.checkpoint.every_rollouts == 0:
                    _save(job, rollout + 1, events)
                    if job.run.stop_request.exists():
                        return "stopped"
            return "finished"
        finally:
            metrics.close()
            events.close()


def kill_self_at(rollout_id: int) -> Callable[[int], None]:
    """A `before_rollout` that ends this process as SIGKILL does."""

    def hook(rollout: int) -> None:
        if rollout == rollout_id:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def wait_at(rollout_id: int, *, at_most_seconds: float = 60.0) -> Callable[[int], None]:
    """A `before_rollout` that stays in one rollout until a signal ends it."""

    def hook(rollout: int) -> None:
        deadline = time.monotonic() + at_most_seconds
        while rollout == rollout_id and time.monotonic() < deadline:
            time.sleep(0.02)

    return hook


def _rollout_metrics(rollout: int) -> dict[str, float]:
    return {
        REWARD: rollout / 10,
        CHECKS_PASSED: float(rollout),
        TRIALS: 16,
        TRIALS_FAILED: 1,
        "terminal/failed_by_cause/sandbox_create": 1,
    }


def _save(job: Job, next_rollout: int, events: EventWriter) -> None:
    directories = save_directories(job.spec, job.run)
    for role, directory in zip(("actor", "critic"), directories.every, strict=False):
        target = directory / f"iter_{next_rollout:07d}"
        write_json(target / "manifest.json", {"role": role})
        events.write(EventKind.CHECKPOINT, rollout=next_rollout, role=role, path=str(target), bytes=0)
