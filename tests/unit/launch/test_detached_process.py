"""A detached campaign: its own session, its own lock, its output in the run directory, its end on record."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from t1cli.launch.backend import Job
from t1cli.launch.embedded_backend import EmbeddedBackend
from t1cli.launch.launch import launch
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import lock_holder, mutex, take
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.run_files import grounded_spec
from t1cli.run.state import RunState, standing
from t1cli.run.summary import summarize

CHILD = (
    "import sys\n"
    "from t1cli.launch.campaign_process import detached_main\n"
    "from t1cli.launch.fake_backend import FakeBackend\n"
    "def fail(rollout):\n"
    "    if rollout == 3: raise RuntimeError('broken')\n"
    "backend = FakeBackend(before_rollout=fail if '--fail' in sys.argv else lambda rollout: None)\n"
    "sys.exit(detached_main(sys.argv[1:], lambda job: backend.start(job).foreground()))\n"
)


@pytest.fixture
def run(loaded, options, listener, stages) -> RunDirectory:
    """A prepared run directory without an end."""
    record = launch(loaded, options, listener, stages())
    directory = RunDirectory(Path(record.run_dir))
    directory.metrics_jsonl.unlink()
    directory.events_jsonl.write_text('{"time": 1.0, "event": "launched", "session": 1}\n')
    return directory


def child(run: RunDirectory, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, str(run.path), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_child_takes_the_launchers_lock_runs_and_gives_it_back(run: RunDirectory) -> None:
    with mutex(run.path.parent):
        take(run, stop_command="x")  # as the launching process holds it
    done = child(run)
    assert done.returncode == 0, done.stderr
    assert standing(run).state is RunState.FINISHED and lock_holder(run.path.parent) is None
    assert summarize(run).rollouts_done == 4


def test_the_child_continues_from_the_last_checkpoint(run: RunDirectory) -> None:
    for iteration in run.path.glob("checkpoints/*/iter_0000004/manifest.json"):
        iteration.unlink()
    assert child(run, "--resume").returncode == 0
    steps = [line for line in run.metrics_jsonl.read_text().splitlines() if "rollout/step" in line]
    assert len(steps) == 2


def test_a_failure_of_the_child_is_on_record(run: RunDirectory) -> None:
    assert child(run, "--fail").returncode == 101
    assert standing(run).detail == "RuntimeError: broken" and lock_holder(run.path.parent) is None
    assert "Traceback" in (run.logs / "campaign.log").read_text()


def test_a_second_process_on_the_same_run_directory_is_refused(run: RunDirectory) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with mutex(run.path.parent):
            take(run, stop_command="x", owner=ProcessIdentity.of(other.pid))
        refused = child(run)
        assert refused.returncode == 1 and f"held by process {other.pid}" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not run.metrics_jsonl.exists()
    finally:
        other.communicate(b"\n")


def test_a_detached_start_is_a_session_of_its_own_with_its_output_kept(
    run: RunDirectory, loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "import os, sys; print('sid', os.getsid(0) == os.getpid(), sys.stdin.read() == ''); input"
    monkeypatch.setattr(EmbeddedBackend, "_argv", staticmethod(lambda run, resume: (sys.executable, "-c", says)))
    started = EmbeddedBackend().start(Job(run, grounded_spec(loaded), False, True, print))
    assert started.foreground is None and started.job_id == f"pid:{started.owner.pid}"
    assert os.waitpid(started.owner.pid, 0)[1] == 0
    assert (run.logs / "process.log").read_text() == "sid True True\n"
