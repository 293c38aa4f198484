"""Fault × moment: who dies or hangs, and when. Afterwards nothing is left, and a trial is scored in full or not at all.

The driver is a process of its own that plays trials of one task on real sandboxes, local or from a real pool server,
and prints a line when it reaches the moment; the fault strikes then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, kill
from t1cli.terminal.sandbox.sweep import sweep_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif("T1_VERIFY" not in os.environ, reason="several minutes: `make verify-sandboxes` runs it"),
    pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap: {bubblewrap_problem()}"),
]

TASKS = Path(__file__).parents[4] / "experiments/quickstart/tasks"

DRIVER = """
import asyncio, json, sys
from pathlib import Path
from t1cli.spec.sandbox import LocalSandbox, PoolSandbox
from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.sandbox.from_spec import sandbox_provider
from t1cli.terminal.sandbox.sandbox import SandboxError
from t1cli.terminal.tasks.load import load_pool
from dataclasses import replace

place, url, moment, tasks = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
spec = PoolSandbox(urls=(url,), max_tasks=16, max_runs_per_task=8, wait_seconds=8.0) if url else LocalSandbox()
task = load_pool(tasks)[0]

def say(**what):
    print(json.dumps(what), flush=True)

async def main():
    provider = sandbox_provider(spec, place / "sandboxes")
    if moment == "create":
        say(moment="create")
    try:
        sandbox = await provider.create("trial-0", owner="run")
        if moment == "create":
            await asyncio.sleep(0.3)
        await sandbox.put_directory(task.solution, "/solution", read_only=True)
        if moment == "mid-trial":
            asyncio.get_running_loop().call_later(0.3, lambda: say(moment="mid-trial"))
            await sandbox.exec("sleep 200 & sleep 8", timeout_seconds=120)
        await sandbox.exec("sh /solution/solve.sh", timeout_seconds=120)
        if moment == "mid-grade":
            slow = place / "slow"
            (slow / "tests").mkdir(parents=True)
            (slow / "tests" / "test.sh").write_text("sleep 8; echo 1 > /logs/verifier/reward.txt")
            asyncio.get_running_loop().call_later(0.3, lambda: say(moment="mid-grade"))
            verdict = await grade(replace(task, path=slow), sandbox, trial_dir=place / "trial")
        else:
            verdict = await grade(task, sandbox, trial_dir=place / "trial")
        say(scored=verdict.passed)
        await sandbox.close()
    except (SandboxError, VerifierError) as error:
        say(lost=type(error).__name__, detail=str(error)[:200])
    await provider.close()

asyncio.run(main())
"""


class Driver:
    """The driver process, stopped at its moment."""

    def __init__(self, place: Path, url: str, moment: str) -> None:
        self.place = place
        argv = [sys.executable, "-c", DRIVER, str(place), url, moment, str(TASKS)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert json.loads(line) == {"moment": moment}, line

    def end(self) -> dict[str, object]:
        """What it says last."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        assert self.process.wait(120) == 0
        return json.loads(lines[-1])


class Server:
    """A real pool server."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.start()

    def start(self) -> None:
        argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "pool", "serve", "--port", "0"]
        argv += ["--directory", str(self.directory), "--drain-seconds", "0", "--idle-seconds", "3"]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{json.loads(self.process.stdout.readline())['port']}"

    @property
    def sandboxes(self) -> Path:
        return self.directory / "sandboxes"

    def free(self) -> int:
        return int(httpx.get(f"{self.url}/status", trust_env=False).json()["pool"]["free"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server")
    yield server
    server.process.terminate()
    assert server.process.wait(120) == 0


def living(sandboxes: Path) -> list[ProcessIdentity]:
    return [process for lease in LeaseBook(sandboxes).leases() for process in lease.processes if process.alive]


def until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


MOMENTS = ("create", "mid-trial", "mid-grade")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_driver_with_local_sandboxes(moment: str, tmp_path: Path) -> None:
    driver = Driver(tmp_path, "", moment)
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.process.wait(120)
    sandboxes = tmp_path / "sandboxes"
    sweep_directory(sandboxes)
    until(lambda: not living(sandboxes), "the sandboxes are gone")
    assert all(lease.closed for lease in LeaseBook(sandboxes).leases())


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_driver_with_leases_of_a_pool(moment: str, tmp_path: Path, server: Server) -> None:
    driver = Driver(tmp_path, server.url, moment)
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.process.wait(120)
    # Nobody sweeps: the lease ends at its idle limit, once nothing runs on it any more.
    until(lambda: server.free() == 128, "the lease's place is free")
    assert not living(server.sandboxes)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_pool_server(moment: str, tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    driver = Driver(tmp_path, server.url, moment)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(120)
    last = driver.end()
    assert "scored" not in last and last["lost"] in ("SandboxError", "VerifierError"), "lost, never scored 0"
    server.start()
    until(lambda: not living(server.sandboxes), "the sandboxes are gone")
    assert server.free() == 128
    server.process.terminate()
    assert server.process.wait(120) == 0


@pytest.mark.parametrize("kind", ["local", "pool"])
@pytest.mark.parametrize("moment", ["mid-trial", "mid-grade"])
def test_a_killed_sandbox(moment: str, kind: str, tmp_path: Path, server: Server) -> None:
    driver = Driver(tmp_path, server.url if kind == "pool" else "", moment)
    sandboxes = server.sandboxes if kind == "pool" else tmp_path / "sandboxes"
    kill(living(sandboxes)[-1])
    last = driver.end()
    assert "scored" not in last and last["lost"] in ("SandboxError", "VerifierError"), "lost, never scored 0"
    until(lambda: not living(sandboxes), "the sandboxes are gone")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_server_that_hangs_is_waited_for_and_ends_in_a_score_or_a_loss(
    moment: str, tmp_path: Path, server: Server
) -> None:
    driver = Driver(tmp_path, server.url, moment)
    os.kill(server.process.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(server.process.pid, signal.SIGCONT)
    last = driver.end()
    assert "lost" in last or last.get("scored", -1) >= 0
    until(lambda: server.free() == 128, "the lease's place is free")
    assert not living(server.sandboxes)
