"""Real processes: two launches at once, SIGKILL and takeover, Ctrl-C, detached campaigns, stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from t1cli.errors import Refused
from t1cli.launch.stop import stop_after_next_save, stop_now
from t1cli.run.attempts import attempts
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import lock_holder, mutex, runs_now, take
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.state import RunState, standing
from t1cli.run.summary import summarize

QUICKSTART = Path(__file__).parents[3] / "experiments/quickstart/experiment.yaml"

# A launch with the fake backend, as `t1 launch` would do it: exit code and message on stdout.
PROGRAM = """
import json, sys
from dataclasses import dataclass
from pathlib import Path
from t1cli.errors import T1Error
from t1cli.launch import fake_backend as fake
from t1cli.launch.launch import launch
from t1cli.launch.proposal import LaunchOptions, Stages
from t1cli.plan.build import build_plan
from t1cli.preflight.report import PreflightReport
from t1cli.spec.load import load_experiment

class Quiet:
    def can_ask(self): return False
    def ask(self, proposal): return False
    def started(self, record): print(record.run_dir, flush=True)
    def progress(self, line): pass

root, spec, how, resume = sys.argv[1:5]
hook = {"go": lambda r: None, "wait": fake.wait_at(1), "wait_late": fake.wait_at(3), "die": fake.kill_self_at(3)}[how]
stages = Stages(build_plan, lambda *_: PreflightReport("q", "d", ()),
                lambda spec: fake.FakeBackend(before_rollout=hook))
loaded = load_experiment(Path(spec), ["rollout.num_rollouts=4", "checkpoint.every_rollouts=2"])
options = LaunchOptions(Path(root), "t1 launch SPEC", assume_yes=True, resume=resume == "resume")
try:
    launch(loaded, options, Quiet(), stages)
except KeyboardInterrupt:
    sys.exit(130)
except T1Error as error:
    print(json.dumps([error.message, error.diagnostics[0].where, error.diagnostics[0].hint]))
    sys.exit(int(error.exit_code))
"""

Launcher = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    started: list[subprocess.Popen[str]] = []

    def start(how: str, resume: str = "fresh", **options: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(QUICKSTART), how, resume]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def run_of(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "quickstart/attempt_1")


def at_rollout(run: RunDirectory, done: int) -> Callable[[], bool]:
    return lambda: summarize(run).rollouts_done >= done and runs_now(run)


def test_of_two_launches_at_once_exactly_one_runs_and_the_other_names_it(tmp_path: Path, launcher: Launcher) -> None:
    both = [launcher("wait"), launcher("wait")]
    until(lambda: any(process.poll() is not None for process in both))
    loser = next(process for process in both if process.poll() is not None)
    winner = next(process for process in both if process is not loser)
    assert loser.returncode == 1 and winner.poll() is None
    message, where, hint = json.loads(loser.communicate()[0])
    assert f"process {winner.pid}" in message
    assert where == str(run_of(tmp_path).path)
    assert f"`t1 launch {QUICKSTART} --set " in hint and f" --runs-dir {tmp_path} --stop` ends it" in hint
    assert [run.attempt for run in attempts(tmp_path / "quickstart")] == [1]


def test_a_dead_owners_lock_is_taken_over_and_its_campaign_resumed(tmp_path: Path, launcher: Launcher) -> None:
    died = launcher("die")
    died.communicate(timeout=120)
    run = run_of(tmp_path)
    assert died.returncode == -signal.SIGKILL
    assert lock_holder(run.path.parent).process.pid == died.pid  # it had no time to give the lock back
    assert standing(run).state is RunState.DEAD
    assert "--resume" in summarize(run).next_command
    resumed = launcher("go", "resume")
    assert resumed.wait(timeout=120) == 0
    assert standing(run).state is RunState.FINISHED and lock_holder(run.path.parent) is None
    record = json.loads(run.record_json.read_text())
    assert [session["resumed_from_rollout"] for session in record["sessions"]] == [None, 2]


@pytest.mark.parametrize("ignored", [False, True], ids=["terminal", "background job"])
def test_ctrl_c_ends_cleanly_with_130(tmp_path: Path, launcher: Launcher, ignored: bool) -> None:
    # A shell starts background jobs with SIGINT ignored; the campaign must hear it all the same.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else None
    try:
        process = launcher("wait")
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    run = run_of(tmp_path)
    until(at_rollout(run, 1))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert standing(run).state is RunState.INTERRUPTED and lock_holder(run.path.parent) is None


def test_stop_now_interrupts_exactly_the_recorded_process(tmp_path: Path, launcher: Launcher) -> None:
    process = launcher("wait")
    run = run_of(tmp_path)
    until(at_rollout(run, 1))
    answer = stop_now(run.path.parent)
    assert answer.ended and answer.pid == process.pid and answer.rollouts_done == 1
    assert process.wait(timeout=120) == 130


def test_a_stop_request_ends_the_campaign_after_its_next_save(tmp_path: Path, launcher: Launcher) -> None:
    process = launcher("wait_late")
    run = run_of(tmp_path)
    until(at_rollout(run, 3))
    answer = stop_after_next_save(run.path.parent)
    assert (answer.rollouts_done, answer.stops_after_rollouts) == (3, 4)
    assert answer.seconds_until_then is not None and run.stop_request.exists()
    stop_now(run.path.parent)
    assert process.wait(timeout=120) == 130
    resumed = launcher("go", "resume")  # a request of a former session is not one for the next
    assert resumed.wait(timeout=120) == 0 and standing(run).state is RunState.FINISHED


def test_a_reused_process_id_is_not_the_owner(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.path.mkdir(parents=True)
    me = ProcessIdentity.of()
    stranger = ProcessIdentity(me.pid, me.started - 1, me.boot, me.host)
    assert stranger.liveness() == "dead" and not stranger.send(signal.SIGINT)
    with mutex(run.path.parent):
        take(run, stop_command="x", owner=stranger)
    assert not runs_now(run)
    with mutex(run.path.parent):
        take(run, stop_command="x")
    assert runs_now(run)


def test_another_machines_lock_is_neither_taken_over_nor_called_alive(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.path.mkdir(parents=True)
    me = ProcessIdentity.of()
    with mutex(run.path.parent):
        take(run, stop_command="x", owner=ProcessIdentity(me.pid, me.started, me.boot, "elsewhere"))
    with pytest.raises(Refused, match="host elsewhere"), mutex(run.path.parent):
        take(run, stop_command="x")
    assert standing(run).state is RunState.UNKNOWN
    with pytest.raises(Refused, match="only be interrupted there"):
        stop_now(run.path.parent)


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    assert identity.liveness() == "alive"
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: identity.liveness() == "dead")  # nobody has waited for it yet
    child.communicate()


def test_stop_without_a_running_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not running"):
        stop_after_next_save(tmp_path / "quickstart")
