"""Paths of a run, and nothing else: `runs/<name>/attempt_N/…`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDirectory:
    """One attempt of a campaign on disk. Every room takes its paths from here."""

    path: Path
    """`runs/<name>/attempt_N`."""

    @property
    def name(self) -> str:
        return self.path.parent.name

    @property
    def attempt(self) -> int:
        return int(self.path.name.removeprefix("attempt_"))

    @property
    def spec_yaml(self) -> Path:
        """The resolved spec, complete and loadable by itself."""
        return self.path / "spec.resolved.yaml"

    @property
    def origins_json(self) -> Path:
        """Dotted key to the place each value came from."""
        return self.path / "origins.json"

    @property
    def plan_json(self) -> Path:
        return self.path / "plan.json"

    @property
    def preflight_json(self) -> Path:
        return self.path / "preflight.json"

    @property
    def record_json(self) -> Path:
        """The RunRecord."""
        return self.path / "record.json"

    @property
    def metrics_jsonl(self) -> Path:
        """One object a line: slime's metric names, `terminal/*`, and the step axes."""
        return self.path / "metrics.jsonl"

    @property
    def events_jsonl(self) -> Path:
        """One object a line: what happened, when (phase, checkpoint, alert, end)."""
        return self.path / "events.jsonl"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def campaign_log(self) -> Path:
        """What people saw, with times; tracebacks too."""
        return self.logs / "campaign.log"

    @property
    def process_log(self) -> Path:
        """Stdout and stderr of a detached process."""
        return self.logs / "process.log"

    @property
    def job_log(self) -> Path:
        """What a slime job has printed."""
        return self.logs / "job.log"

    @property
    def job_log_position(self) -> Path:
        """How far the job's output is written down."""
        return self.logs / "job_log_position.json"

    @property
    def ray_logs(self) -> Path:
        """Of the embedded engine's private Ray."""
        return self.logs / "ray"

    @property
    def trials(self) -> Path:
        """Fresh, run-tagged trial directories."""
        return self.path / "trials"

    @property
    def carried(self) -> Path:
        """What the next rollout goes on with, also that of a resumed session: finished trials of a rollout that is not
        complete, where the draw of tasks stands, how long tasks took. Unlike `trials` it is never set aside."""
        return self.path / "carried"

    @property
    def sandboxes(self) -> Path:
        """Working directories and the lease record of local sandboxes."""
        return self.path / "sandboxes"

    @property
    def ray_json(self) -> Path:
        """Of the embedded engine: the private Ray of a session, for whoever sweeps after it."""
        return self.path / "ray.json"

    @property
    def ray_job_json(self) -> Path:
        """Of slime: which job of which cluster the newest session runs as."""
        return self.path / "ray_job.json"

    @property
    def job(self) -> Path:
        """Of slime: what was submitted, by session."""
        return self.path / "job"

    @property
    def evaluation_request(self) -> Path:
        """The checkpoint that an evaluation was asked about."""
        return self.path / "evaluation_request.json"

    @property
    def watch(self) -> Path:
        """What watchers keep."""
        return self.path / "watch"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def report_html(self) -> Path:
        return self.path / "report.html"

    @property
    def rollouts(self) -> Path:
        """Saved training rows by rollout id."""
        return self.path / "rollouts"

    @property
    def checkpoints(self) -> Path:
        """One directory per role, of the roles that the spec names no other directory for."""
        return self.path / "checkpoints"

    @property
    def actor_checkpoints(self) -> Path:
        return self.checkpoints / "actor"

    @property
    def critic_checkpoints(self) -> Path:
        return self.checkpoints / "critic"

    @property
    def stop_request(self) -> Path:
        """A file whose presence asks the campaign to stop after the next save."""
        return self.path / "stop_request.json"

    @property
    def pause_request(self) -> Path:
        """A file whose presence holds the next rollout."""
        return self.path / "pause_request.json"
