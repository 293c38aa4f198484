"""W&B and TensorBoard read back: files made by the real libraries, torn tails, killed writers, a double of the API."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.errors import BadInput, CouldNotAsk
from t1cli.watch.sources.open_source import open_source
from t1cli.watch.sources.source import Row
from t1cli.watch.sources.tensorboard_files import TensorboardFiles
from t1cli.watch.sources.wandb_log import BLOCK_BYTES, HEADER_BYTES, read_records
from t1cli.watch.sources.wandb_offline import WandbOffline
from t1cli.watch.sources.wandb_online import WandbOnline

WRITE = """
import os, sys, time
import wandb
run = wandb.init(project="p", id=sys.argv[1], settings=wandb.Settings(
    silent=True, console="off", x_disable_stats=True, x_disable_meta=True, disable_git=True, init_timeout=150))
for step in range(int(sys.argv[2]), int(sys.argv[3])):
    run.log({"rollout/step": step, "rollout/raw_reward": float("nan") if step == 7 else step / 10,
             "nested": {"a": step}, "text": "x" * 400})
print("logged", flush=True)
if len(sys.argv) > 4:
    time.sleep(600)
run.finish()
"""


def write_run(folder: Path, run_id: str, first: int, end: int, *more: str) -> subprocess.Popen[str]:
    folder.mkdir(parents=True, exist_ok=True)
    # A test that logged in this process leaves the address of its W&B service behind, which knows each run ID once.
    inherited = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
    environment = {**inherited, "WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_SILENT": "true"}
    command = [sys.executable, "-c", WRITE, run_id, str(first), str(end), *more]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes of one run, as slime's primary and secondary, and a third that is killed."""
    folder = tmp_path_factory.mktemp("wandb")
    processes = [write_run(folder / "a", "one", 0, 150), write_run(folder / "b", "one", 150, 160)]
    killed = write_run(folder / "killed", "two", 0, 400, "wait")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "logged\n"
    until(lambda: bool(WandbOffline(folder / "killed").poll()))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    for process in processes:
        _, errors = process.communicate(timeout=180)
        assert process.returncode == 0, errors
    # The library's writer ends a moment after the process that logged: the run's exit record says that all is there.
    until(lambda: all(_exited(folder / name) for name in ("a", "b")))
    return folder


def until(condition: Callable[[], bool], seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.2)


def _exited(folder: Path) -> bool:
    source = WandbOffline(folder)
    source.poll()
    return bool(source.exited)


def test_wandb_offline_is_read_with_nan_nested_names_and_clock(offline: Path) -> None:
    source = WandbOffline(offline / "a")
    rows = source.poll()
    assert [row.step for row in rows] == list(range(150))
    assert math.isnan(rows[7].values["rollout/raw_reward"])
    assert rows[9].values["nested/a"] == 9.0
    assert rows[9].time == pytest.approx(time.time(), abs=600)
    assert list(source.run_ids.values()) == ["one"]
    assert len(source.exited) == 1


def test_several_files_of_one_run_are_one_source_and_two_runs_are_not(offline: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    both.mkdir()
    for name in ("a", "b"):
        (both / name).symlink_to(offline / name)
    paths = [path for name in ("a", "b") for path in (offline / name).rglob("*.wandb")]
    for number, path in enumerate(paths):
        (both / f"{number}.wandb").write_bytes(path.read_bytes())
    opened = open_source(str(both), tmp_path)
    assert sorted({row.step for row in opened.source.poll()}) == list(range(160))
    with pytest.raises(BadInput, match="several runs"):
        WandbOffline(offline).poll()


def test_a_killed_writer_leaves_rows_and_no_farewell(offline: Path) -> None:
    source = WandbOffline(offline / "killed")
    assert [row.step for row in source.poll()][:5] == [0, 1, 2, 3, 4]
    assert source.exited == set()


def test_a_torn_tail_is_read_on_when_it_is_whole(offline: Path, tmp_path: Path) -> None:
    (original,) = (offline / "a").rglob("*.wandb")
    content = original.read_bytes()
    assert len(content) > 2 * BLOCK_BYTES  # records that are split over blocks are among them
    path = tmp_path / "run.wandb"
    path.write_bytes(b"")
    source = WandbOffline(path, is_finished=lambda: False)
    rows: list[Row] = []
    for end in (*range(1, len(content), 7919), len(content)):
        path.write_bytes(content[:end])
        rows += source.poll()
    assert [row.step for row in rows] == list(range(150))


def test_a_broken_checksum_stops_the_reading_there(offline: Path, tmp_path: Path) -> None:
    (original,) = (offline / "a").rglob("*.wandb")
    content = bytearray(original.read_bytes())
    whole = len(list(read_records(original)))
    content[len(content) // 2] ^= 0xFF
    path = tmp_path / "run.wandb"
    path.write_bytes(content)
    assert 0 < len(list(read_records(path))) < whole
    path.write_bytes(b"something else")
    assert list(read_records(path, HEADER_BYTES)) == []


def tensorboard_writer(folder: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(folder), flush_secs=1)


def add(writer: Any, step: int, **values: float) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    scalars = [Summary.Value(tag=tag.replace("__", "/"), simple_value=value) for tag, value in values.items()]
    writer.add_event(Event(wall_time=1000.0 + step, step=step, summary=Summary(value=scalars)))


def test_tensorboard_is_read_without_tensorflow_as_it_grows(tmp_path: Path) -> None:
    writer = tensorboard_writer(tmp_path)
    source = TensorboardFiles(tmp_path, steps_per_rollout=2, is_finished=lambda: False)
    add(writer, 0, rollout__raw_reward=0.5)
    add(writer, 1, train__grad_norm=math.nan)
    writer.flush()
    rows = source.poll()
    assert [(row.step, list(row.values)) for row in rows] == [(0, ["rollout/raw_reward"]), (0, ["train/grad_norm"])]
    assert rows[0].time == 1000.0
    assert math.isnan(rows[1].values["train/grad_norm"])
    add(writer, 2, rollout__raw_reward=0.75)
    writer.close()
    assert [row.step for row in source.poll()] == [2]
    assert "tensorflow" not in sys.modules


def test_a_torn_tensorboard_tail_is_completed_later(tmp_path: Path) -> None:
    writer = tensorboard_writer(tmp_path / "w")
    for step in range(20):
        add(writer, step, m=float(step))
    writer.close()
    (original,) = (tmp_path / "w").iterdir()
    content, path = original.read_bytes(), tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(content[:-9])
    source = TensorboardFiles(path)
    assert [row.step for row in source.poll()] == list(range(19))
    path.write_bytes(content)
    assert [row.step for row in source.poll()] == [19]


def test_our_own_trackers_are_read_back(tmp_path: Path) -> None:
    from t1cli.run.directory import RunDirectory
    from t1cli.run.trackers.tensorboard_tracker import TensorboardTracker
    from t1cli.spec.tracking import TensorboardSpec

    run = RunDirectory(tmp_path / "runs" / "x" / "attempt_1")
    tracker = TensorboardTracker(TensorboardSpec(), run)
    tracker.log("train/step", 3, {"train/grad_norm": 0.5})
    tracker.close()
    opened = open_source(str(run.path / "tensorboard"), tmp_path)
    assert [(row.step, dict(row.values)) for row in opened.source.poll()] == [(3, {"train/grad_norm": 0.5})]


class Api:
    """A double of `wandb.Api`: one run whose scan, history, state and end step can be set."""

    def __init__(self, rows: list[dict[str, Any]], *, last: int | None = None, state: str = "running") -> None:
        self.rows, self.last, self.state = rows, last, state
        self.hide = self.fail = False

    def run(self, path: str) -> Any:
        if self.fail:
            raise ConnectionError("no route")
        last = max((row["_step"] for row in self.rows), default=-1) if self.last is None else self.last

        def scan(min_step: int, use_cache: bool) -> Iterator[dict[str, Any]]:
            assert use_cache is False
            end = last + 1
            return iter([] if self.hide else [row for row in self.rows if min_step <= row["_step"] < end])

        history = lambda samples, pandas: list(self.rows)  # noqa: E731
        return SimpleNamespace(state=self.state, lastHistoryStep=last, scan_history=scan, history=history)


def logged(*steps: int) -> list[dict[str, Any]]:
    return [{"_step": s, "_timestamp": 100.0 + s, "rollout/step": s, "m": s / 10} for s in steps]


def test_wandb_online_gives_every_row_once() -> None:
    api = Api(logged(0, 1, 2))
    source = WandbOnline("e/p/r", api=api)
    assert [row.step for row in source.poll()] == [0, 1, 2]
    assert source.poll() == ()
    api.rows += logged(3)
    assert [row.step for row in source.poll()] == [3]
    assert not source.finished
    api.state = "finished"
    source.poll()
    assert source.finished


def test_crashed_is_a_weak_vote_while_data_is_young() -> None:
    now = [0.0]
    api = Api(logged(0), state="crashed")
    source = WandbOnline("e/p/r", api=api, clock=lambda: now[0])
    source.poll()
    assert not source.finished
    now[0] = 601.0
    source.poll()
    assert source.finished


def test_last_step_zero_falls_back_to_the_sampled_history() -> None:
    """As the postmortem's run reads: `lastStep: 0` after 1,107 rows."""
    api = Api(logged(*range(50)), last=0)
    source = WandbOnline("e/p/r", api=api)
    assert [row.step for row in source.poll()] == list(range(50))
    assert source.poll() == ()


def test_rows_that_the_server_hides_are_blindness_not_health() -> None:
    api = Api(logged(0, 1, 2))
    api.hide = True
    with pytest.raises(CouldNotAsk, match="gives none"):
        WandbOnline("e/p/r", api=api).poll()
    api.fail = True
    with pytest.raises(CouldNotAsk, match="no route"):
        WandbOnline("e/p/r", api=api).poll()
