"""metrics.jsonl: axes, numbers that are none, and trackers that fail."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.run.metrics_reader import read_metrics, series
from t1cli.run.metrics_writer import MetricsWriter, metric_row

NAMES = st.text(min_size=1, max_size=12).filter(lambda n: n not in ("time", "nan") and not n.endswith("/step"))


@given(values=st.dictionaries(NAMES, st.floats(allow_nan=True, allow_infinity=True)), step=st.integers(0, 10**9))
def test_every_row_is_strict_json_and_reads_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, float], step: int
) -> None:
    path = tmp_path_factory.mktemp("m") / "metrics.jsonl"
    writer = MetricsWriter(path, clock=lambda: 12.5)
    writer.rollout(step, values)
    writer.close()
    line = json.loads(path.read_text(), parse_constant=pytest.fail)
    (row,) = read_metrics(path)
    assert (row.axis, row.step, row.time) == ("rollout/step", step, 12.5)
    assert set(line.get("nan", [])) == {name for name, value in values.items() if not math.isfinite(value)}
    for name, value in values.items():
        assert row.values[name] == value or (not math.isfinite(value) and math.isnan(row.values[name]))


def test_train_and_rollout_rows_keep_their_own_axis(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    writer.rollout(3, {"rollout/raw_reward": 0.5})
    writer.train(7, {"train/loss": 1.0})
    writer.eval(3, {"eval/pool": 0.25})
    writer.close()
    assert [(row.axis, row.step) for row in read_metrics(path)] == [
        ("rollout/step", 3),
        ("train/step", 7),
        ("eval/step", 3),
    ]


def test_a_name_that_the_row_uses_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="rollout/step, time"):
        metric_row("train/step", 0, {"time": 1.0, "rollout/step": 2.0}, 0.0)


def test_the_last_writer_of_a_repeated_step_wins(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for values in ({0: 0.1, 1: 0.2, 2: 0.3}, {1: 0.7, 2: 0.8}):  # a session, then one resumed at rollout 1
        writer = MetricsWriter(path)
        for step, value in values.items():
            writer.rollout(step, {"rollout/raw_reward": value})
        writer.close()
    assert series(read_metrics(path), "rollout/raw_reward") == {0: 0.1, 1: 0.7, 2: 0.8}


class Flaky:
    name = "flaky"

    def __init__(self) -> None:
        self.seen: list[int] = []

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        assert all(math.isfinite(value) for value in values.values())
        if step == 1:
            raise ConnectionError("away")
        self.seen.append(step)

    def close(self) -> None:
        raise AssertionError("a dropped tracker is not closed again")


def test_a_failing_tracker_is_dropped_once_and_the_file_goes_on(tmp_path: Path) -> None:
    flaky, failures = Flaky(), []
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path, trackers=[flaky], on_tracker_failure=lambda *what: failures.append(what))
    for step in range(4):
        writer.train(step, {"train/loss": math.nan if step == 0 else 1.0})
    writer.close()
    assert flaky.seen == [0]
    assert failures == [("flaky", "ConnectionError: away")]
    assert len(read_metrics(path)) == 4
