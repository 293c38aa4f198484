"""A private Ray leaves nothing behind, not even when its driver is killed outright."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from t1cli.cluster.guard import MARK, Cluster
from t1cli.cluster.local import LocalCluster, sweep_cluster
from t1cli.errors import CouldNotAsk

COUNTER = """
from t1cli.errors import Refused

class Counter:
    def __init__(self, start): self.count = start
    def add(self, n): self.count += n; return self.count
    def refuse(self): raise Refused("no", where="here")
    def crash(self): raise ValueError("broken")
"""
DRIVER = """
import asyncio, sys, time
from pathlib import Path
from t1cli.cluster.local import ActorFailed, LocalCluster
from t1cli.errors import Refused

async def exercise(counter):
    assert await counter.call("add", 2) == 42
    assert await counter.call("add", counter.begin("add", 0)) == 84
    try: await counter.call("refuse")
    except Refused as refusal: assert refusal.diagnostics[0].where == "here"
    else: raise AssertionError
    try: await counter.call("crash")
    except ActorFailed as failure:
        assert failure.message == "the counter failed in `crash`: ValueError: broken"
    else: raise AssertionError

record, logs = Path(sys.argv[1]), Path(sys.argv[2])
cluster = LocalCluster.start(record, logs)
asyncio.run(exercise(cluster.spawn("counter_for_test:Counter", 40, name="counter")))
print("up", flush=True)
if sys.argv[3] == "close":
    cluster.close()
    cluster.close()
else:
    time.sleep(600)
"""


def wait_until(condition, seconds: float = 120.0) -> bool:
    """Poll a condition with a deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def start_driver(tmp_path: Path, how: str) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    record = tmp_path / "ray.json"
    command = [sys.executable, "-c", DRIVER, str(record), str(tmp_path / "logs"), how]
    (tmp_path / "counter_for_test.py").write_text(COUNTER)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"up\n"
    left = json.loads(record.read_text()) if record.exists() else {}
    return driver, left


def test_calls_errors_and_a_clean_end(tmp_path: Path) -> None:
    driver, _ = start_driver(tmp_path, "close")
    assert driver.wait(timeout=120) == 0
    assert not (tmp_path / "ray.json").exists()


def family(pid: int) -> list[psutil.Process]:
    """A process's living descendants."""
    return psutil.Process(pid).children(recursive=True)


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_sigkill_of_the_driver_leaves_no_process_and_no_directory(tmp_path: Path) -> None:
    """Every descendant, also Ray's agents, which overwrite the environment that they were started with."""
    driver, left = start_driver(tmp_path, "hold")
    descendants = family(driver.pid)
    assert len(descendants) >= 6
    driver.send_signal(signal.SIGKILL)
    driver.wait(timeout=120)
    assert wait_until(lambda: all(is_gone(process) for process in descendants)), [
        process.cmdline() for process in descendants if not is_gone(process)
    ]
    assert wait_until(lambda: not Path(left["temp_dir"]).exists())
    assert sweep_cluster(tmp_path / "ray.json") == 0


def test_sweep_ends_what_even_the_guard_did_not(tmp_path: Path) -> None:
    """Driver and guard both killed, as by a host that ends a whole container's processes one by one."""
    temp_dir = tmp_path / "t1-ray-left"
    temp_dir.mkdir()
    record = tmp_path / "ray.json"
    record.write_text(json.dumps({"mark": "abcd", "temp_dir": str(temp_dir)}))
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    marked = subprocess.Popen(sleeping, env={**os.environ, MARK: "abcd"})
    stranger = subprocess.Popen(sleeping, env={**os.environ, MARK: "abcde"})
    with (temp_dir / "log").open("w") as log:
        writing = subprocess.Popen(sleeping, stdout=log)
    try:
        cluster = Cluster("abcd", temp_dir)
        assert wait_until(lambda: set(cluster.processes()) == {marked.pid, writing.pid})
        assert sweep_cluster(record) == 2
        assert marked.wait(timeout=120) == writing.wait(timeout=120) == -signal.SIGKILL
        assert stranger.poll() is None
        assert not temp_dir.exists() and not record.exists()
    finally:
        stranger.kill()
        stranger.wait(timeout=120)


@pytest.mark.parametrize("died_at", ["write", "mkdir", "guard"])
def test_killed_at_any_step_of_a_start_nothing_lies_about_unrecorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died_at: str
) -> None:
    record, root = tmp_path / "ray.json", tmp_path / "tmp"
    root.mkdir()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("t1cli.cluster.local._TEMP_ROOT", root)
        if died_at == "mkdir":
            mkdir = Path.mkdir
            patch.setattr(Path, "mkdir", lambda path, *a, **k: die() if path.parent == root else mkdir(path, *a, **k))
        elif died_at == "write":
            patch.setattr(Path, "replace", die)
        else:
            patch.setattr(subprocess, "Popen", die)
        with pytest.raises(KeyboardInterrupt):
            LocalCluster.start(record, tmp_path / "logs")
    assert all(str(path) == json.loads(record.read_text())["temp_dir"] for path in root.iterdir())
    assert sweep_cluster(record) == 0
    assert list(root.iterdir()) == [] and not record.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mark": 3}', '{"mark": "abcd", "temp_dir": "/etc"}'])
def test_a_record_that_names_no_cluster_of_ours_ends_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "ray.json").write_text(text)
    assert sweep_cluster(tmp_path / "ray.json") == 0


def test_a_ray_that_does_not_come_up_is_tried_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Path] = []

    def start(temp_dir: Path, environment: Mapping[str, str]) -> None:
        tried.append(temp_dir)
        if len(tried) != 2:
            raise RuntimeError("the node timed out")

    monkeypatch.setattr("t1cli.cluster.local._init_ray", start)
    cluster = LocalCluster.start(tmp_path / "ray.json", tmp_path)
    assert len(set(tried)) == 2 and not tried[0].exists() and tried[1].exists()
    cluster.close()
    assert not tried[1].exists()
    with pytest.raises(CouldNotAsk, match="the node timed out"):
        LocalCluster.start(tmp_path / "ray.json", tmp_path)
    assert len(tried) == 4 and not any(path.exists() for path in tried)
