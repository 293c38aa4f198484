"""The metrics writer of a run, with the trackers that its spec asks for."""

from __future__ import annotations

from collections.abc import Callable

from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.metrics_writer import MetricsWriter, Tracker
from t1cli.run.redaction import Redactor
from t1cli.spec.experiment import ExperimentSpec


def open_metrics(run: RunDirectory, spec: ExperimentSpec, events: EventWriter) -> MetricsWriter:
    """metrics.jsonl always; W&B and TensorBoard where asked for. A tracker that cannot start or fails is an event."""

    def failed(name: str, reason: str) -> None:
        events.write(EventKind.NOTE, message=f"tracker {name} is off from here on: {reason}")

    trackers = [tracker for name, make in _makers(run, spec).items() if (tracker := _try(name, make, failed))]
    return MetricsWriter(run.metrics_jsonl, trackers=trackers, on_tracker_failure=failed)


def open_job_metrics(run: RunDirectory) -> MetricsWriter:
    """metrics.jsonl alone: a slime job writes to W&B and TensorBoard itself."""
    return MetricsWriter(run.metrics_jsonl)


def _makers(run: RunDirectory, spec: ExperimentSpec) -> dict[str, Callable[[], Tracker]]:
    makers: dict[str, Callable[[], Tracker]] = {}
    wandb, tensorboard = spec.tracking.wandb, spec.tracking.tensorboard
    if wandb is not None:

        def make_wandb() -> Tracker:
            from t1cli.run.trackers.wandb_tracker import WandbTracker

            content = spec.model_dump(mode="json")
            return WandbTracker(wandb, run, Redactor.of_environment(None, content).json(content))

        makers["wandb"] = make_wandb
    if tensorboard is not None:

        def make_tensorboard() -> Tracker:
            from t1cli.run.trackers.tensorboard_tracker import TensorboardTracker

            return TensorboardTracker(tensorboard, run)

        makers["tensorboard"] = make_tensorboard
    return makers


def _try(name: str, make: Callable[[], Tracker], failed: Callable[[str, str], None]) -> Tracker | None:
    # The boundary of the trackers' start: preflight has said whether they should work; here the campaign goes on.
    try:
        return make()
    except Exception as failure:
        failed(name, f"{type(failure).__name__}: {failure}")
        return None
