"""Real offline files of W&B and TensorBoard, written through the metrics writer."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventWriter, read_events
from t1cli.run.metrics_reader import read_metrics
from t1cli.run.open_metrics import open_metrics
from t1cli.spec.tracking import TrackingSpec


def write_three_rows(run: RunDirectory, spec) -> None:
    events = EventWriter(run.events_jsonl)
    metrics = open_metrics(run, spec, events)
    for step in range(3):
        metrics.rollout(step, {"rollout/raw_reward": step / 4, "terminal/x": float("nan")})
        metrics.train(2 * step, {"train/loss": float(step)})
    metrics.close()
    events.close()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "quickstart" / "attempt_1")
    directory.path.mkdir(parents=True)
    return directory


def test_tensorboard_files_hold_every_finite_value_at_its_own_step(run: RunDirectory, loaded) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracking = TrackingSpec.model_validate({"tensorboard": {}})
    write_three_rows(run, loaded.spec.model_copy(update={"tracking": tracking}))
    found = EventAccumulator(str(run.path / "tensorboard" / "quickstart")).Reload()
    assert [(e.step, e.value) for e in found.Scalars("rollout/raw_reward")] == [(0, 0.0), (1, 0.25), (2, 0.5)]
    assert [(e.step, e.value) for e in found.Scalars("train/loss")] == [(0, 0.0), (2, 1.0), (4, 2.0)]
    assert "terminal/x" not in found.Tags()["scalars"]


def test_wandb_offline_files_hold_the_rows_and_no_secret(
    run: RunDirectory, loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("MY_SERVICE_TOKEN", "Zq7PlantedSecretOfTheEnvironment")
    monkeypatch.setattr("sys.argv", ["t1", "--token", "Zq7PlantedSecretOfTheEnvironment"])
    monkeypatch.delenv("WANDB_MODE", raising=False)
    spec = loaded.spec.model_copy(
        update={
            "tracking": TrackingSpec.model_validate({"wandb": {"project": "t1-tests", "mode": "offline"}}),
            "slime_args": {"wandb_key": "Zq7PlantedSecretOfTheEnvironment"},
        }
    )
    write_three_rows(run, spec)
    assert read_events(run.events_jsonl) == ()  # nothing went wrong on the way
    (log,) = (run.path / "wandb").glob("offline-run-*/*.wandb")
    # W&B's service process writes the file a moment after `finish` has returned.
    wanted = (b"rollout/raw_reward", b"rollout/step", b"train/loss", b"quickstart-attempt_1", b"0.25")
    deadline = time.monotonic() + 120
    while not all(name in log.read_bytes() for name in wanted):
        assert time.monotonic() < deadline, f"{log} lacks rows"
        time.sleep(0.02)
    for path in (run.path / "wandb").rglob("*"):
        assert path.is_dir() or b"Zq7Planted" not in path.read_bytes(), path


def test_a_tracker_that_cannot_start_is_an_event_and_the_campaign_goes_on(
    run: RunDirectory, loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    tracking = TrackingSpec.model_validate({"tensorboard": {}})
    write_three_rows(run, loaded.spec.model_copy(update={"tracking": tracking}))
    (event,) = read_events(run.events_jsonl)
    assert "tracker tensorboard is off" in event.text("message")
    assert len(read_metrics(run.metrics_jsonl)) == 6
