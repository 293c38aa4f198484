"""`t1 watch RUN` beside a living run: one line per rollout to its end, exit codes, Ctrl-C, no terminal needed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from t1cli.records import write_text
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.lock import take
from t1cli.run.metric_names import CHECK_RATE, EXPLAINED_VARIANCE, LOGPROB_GAP, REWARD
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.run.process_identity import ProcessIdentity

SPEC = """
rollout: {num_rollouts: 6, batch_size: 16, samples_per_prompt: 1}
checkpoint: {every_rollouts: 2}
watch: {packs: [slime-ppo, terminal, invariants]}
"""


class SyntheticRun:
    """A run directory whose owner is a real process of its own."""

    def __init__(self, runs: Path) -> None:
        self.run = RunDirectory(runs / "quickstart" / "attempt_1")
        self.run.path.mkdir(parents=True)
        write_text(self.run.spec_yaml, SPEC)
        self.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        take(self.run, stop_command="t1 launch --stop", owner=ProcessIdentity.of(self.process.pid))
        self._metrics = MetricsWriter(self.run.metrics_jsonl)
        self._events = EventWriter(self.run.events_jsonl)
        self._events.write(EventKind.LAUNCHED, session=1, pid=self.process.pid, resumed=False)

    def rollout(self, rollout_id: int, *, lost: float = 0.0) -> None:
        """What one rollout of the embedded engine logs, in its order."""
        values = {REWARD: 0.1, CHECK_RATE: 0.8, "terminal/non_trainable_ratio": lost, "perf/rollout_time": 3.0}
        self._metrics.rollout(rollout_id, values)
        self._metrics.train(rollout_id, {EXPLAINED_VARIANCE: 0.2, LOGPROB_GAP: 0.002, "train/grad_norm": 0.5})

    def end(self, outcome: str | None = "finished") -> None:
        """The run ends; None means that it is killed without a last word."""
        if outcome is not None:
            self._events.write(EventKind.ENDED, outcome=outcome, detail="")
        self.process.kill()
        self.process.wait()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[SyntheticRun]:
    made = SyntheticRun(tmp_path / "runs")
    yield made
    made.end()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the real command without a terminal."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).with_name("t1")), "watch", "quickstart", "--interval", "0.05", *options]
        environment = {**os.environ, "T1_RUNS_DIR": str(tmp_path / "runs")}
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_follows_a_living_run_to_its_end_one_line_per_rollout(
    run: SyntheticRun, watch: Callable[..., subprocess.Popen[str]]
) -> None:
    run.rollout(0)
    process = watch()
    assert line(process).startswith("rollout 1/6  reward 0.100  checks 0.80  EV +0.20  gap 0.0020  lost 0%")
    for rollout in range(1, 6):
        run.rollout(rollout)
        # The line of a rollout is there before the next rollout begins.
        assert line(process).startswith(f"rollout {rollout + 1}/6 ")
    run.end()
    rest, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    finished, verdict, changed, *following = rest.splitlines()[-6:]
    assert finished == "run finished after 6 rollouts"
    assert verdict.startswith("too short to judge: ")
    assert changed.startswith("check rate stayed at 0.800 ")
    assert [line[6:].split()[1] for line in following] == ["report", "audit", "status"]
    assert "\x1b" not in rest


def test_a_starved_run_is_not_healthy(run: SyntheticRun, watch: Callable[..., subprocess.Popen[str]]) -> None:
    for rollout in range(6):
        run.rollout(rollout, lost=0.8)
    run.end()
    process = watch()
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "first-rollouts-starved" in text


def test_a_run_that_died_is_not_healthy(run: SyntheticRun, watch: Callable[..., subprocess.Popen[str]]) -> None:
    run.rollout(0)
    run.end(None)
    text, _ = watch().communicate(timeout=120)
    assert "run dead after 1 rollouts: its process ended without a last word" in text
    assert text.splitlines()[-1] == "NOT healthy"


def test_interrupting_the_watcher_leaves_the_run_alone(
    run: SyntheticRun, watch: Callable[..., subprocess.Popen[str]]
) -> None:
    run.rollout(0)
    process = watch()
    line(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert run.process.poll() is None
    assert not run.run.stop_request.exists()


def test_json_is_one_object_a_line_until_the_end(
    run: SyntheticRun, watch: Callable[..., subprocess.Popen[str]]
) -> None:
    run.rollout(0)
    process = watch("--json")
    first = json.loads(line(process))
    assert (first["format_version"], first["kind"], first["step"]) == (1, "row", 0)
    run.end()
    rest, _ = process.communicate(timeout=120)
    objects = [json.loads(text) for text in rest.splitlines()]
    assert objects[-1]["kind"] == "end"
    assert objects[-1]["healthy"] is True
    assert process.returncode == 0


def test_an_allowed_stop_is_asked_for_once_and_a_restarted_watcher_stays_silent(
    run: SyntheticRun, watch: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(
        "rules: [{name: dead, metric: terminal/non_trainable_ratio, above: 0.5, severity: stop, confirmed: true}]"
    )
    write_text(run.run.spec_yaml, SPEC.replace("watch: {", "watch: {protect_first_rollouts: 0, "))
    for rollout in range(3):
        run.rollout(rollout, lost=0.9)
    process = watch("--rules", str(pack), "--allow-stop", "--grace", "0")
    seen = []
    while text := line(process):
        seen.append(text)
        if text.startswith("asked the run to stop after its next save"):
            break
    assert any(text.startswith("! stop dead") for text in seen)
    assert run.run.stop_request.exists()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    run.end("stopped")
    second, _ = watch("--rules", str(pack), "--allow-stop", "--grace", "0").communicate(timeout=120)
    assert "! stop dead" not in second
    assert "stop report" in second
    assert "run stopped" in second


def test_on_a_terminal_the_lines_are_the_same(run: SyntheticRun, tmp_path: Path) -> None:
    for rollout in range(2):
        run.rollout(rollout)
    run.end()
    command = [str(Path(sys.executable).with_name("t1")), "watch", "quickstart"]
    leader, follower = pty.openpty()
    environment = {**os.environ, "T1_RUNS_DIR": str(tmp_path / "runs"), "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    text = b""
    while True:
        try:
            text += os.read(leader, 65536)
        except OSError:  # the terminal's other end is closed: the process is gone
            break
    os.close(leader)
    assert process.wait(120) == 0
    assert b"rollout 1/6" in text
    assert b"rollout 2/6" in text
