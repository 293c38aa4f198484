"""What a test of faults holds in its hands: the driver's process, a pool server, and what may be left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import httpx
import psutil

from t1cli.spec.load import load_experiment
from t1cli.terminal.rollout.finished import FinishedTrials
from t1cli.terminal.rollout.from_spec import rollout_plan
from t1cli.terminal.rollout.plan import group_tasks
from t1cli.terminal.sandbox.leases import NODE_PREFIX, Lease, LeaseBook
from t1cli.terminal.sandbox.local_process import marked
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, identify, kill
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.store import load_rows

HERE = Path(__file__).parent
QUICKSTART = HERE.parents[3] / "experiments/quickstart"
ROLLOUTS = 2
PLACES = 128
WITHIN_SECONDS = 120.0
"""Deadline of every wait: many times what a busy machine needs, and no figure of any promise."""
IDLE_SECONDS = 3.0
"""The time to live of a pool's unused lease."""
KEPT = {"leases.jsonl", "python", "pool"}
"""What stays in a directory of sandboxes: records, and the verifiers' interpreter."""


def until(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)
    return found


class Driver:
    """The driver's process; `at` waits until it stands at its moment."""

    started: ClassVar[list[Driver]] = []

    def __init__(self, place: Path, *options: str) -> None:
        self.place = place
        (place / "tmp").mkdir(parents=True, exist_ok=True)
        for name in ("claimed", "at", "go"):
            (place / name).unlink(missing_ok=True)
        argv = [sys.executable, str(HERE / "fault_driver.py"), str(place), *options]
        environment = {**os.environ, "TMPDIR": str(place / "tmp")}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
        self.seen: set[ProcessIdentity] = set()
        self.started.append(self)

    def at(self) -> int:
        """The process that stands at the moment; all that lives of this run now is remembered."""
        until(lambda: (self.place / "at").exists() or self.process.poll() is not None, "the moment has come")
        assert self.process.poll() is None, "the driver ended before its moment"
        self.seen = {found for process in self.family() if (found := identify(process.pid))}
        return int((self.place / "at").read_text())

    def family(self) -> list[psutil.Process]:
        """The driver and all below it."""
        process = psutil.Process(self.process.pid)
        return [process, *process.children(recursive=True)]

    def workers(self) -> list[psutil.Process]:
        """Its trial workers."""
        return [process for process in self.family() if _is_worker(process)]

    def go(self) -> None:
        """Let it go on."""
        (self.place / "go").touch()

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait(WITHIN_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def end(self) -> dict[str, Any]:
        """What it says last."""
        output, _ = self.process.communicate(timeout=3 * WITHIN_SECONDS)
        assert self.process.returncode == 0
        return json.loads(output.splitlines()[-1])


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any("fault_worker" in part for part in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


class Server:
    """A real pool server."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, 0
        (directory / "tmp").mkdir(parents=True)
        self.start()

    def start(self) -> None:
        """Start it, or its successor at the same address."""
        argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "pool", "serve"]
        argv += ["--port", str(self.port), "--directory", str(self.directory)]
        argv += ["--drain-seconds", "0", "--idle-seconds", str(IDLE_SECONDS)]
        environment = {**os.environ, "TMPDIR": str(self.directory / "tmp")}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        self.port = json.loads(self.process.stdout.readline())["port"]
        self.url = f"http://127.0.0.1:{self.port}"

    def signal(self, number: signal.Signals) -> None:
        """A signal to exactly this process."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait(WITHIN_SECONDS)

    def free(self) -> int:
        """Places that nobody has."""
        return int(httpx.get(f"{self.url}/status", trust_env=False, timeout=60).json()["pool"]["free"])

    def end(self) -> None:
        """As a supervisor ends it."""
        self.process.terminate()
        assert self.process.wait(WITHIN_SECONDS) == 0


def books(place: Path) -> list[Path]:
    """Every directory of sandboxes below a place."""
    return sorted(path.parent for path in place.rglob("leases.jsonl"))


def living(place: Path) -> list[tuple[Lease, list[ProcessIdentity]]]:
    """Sandboxes on record that have a process, on record or marked."""
    found = []
    for lease in (lease for book in books(place) for lease in LeaseBook(book).leases()):
        by_marker = marked(lease.marker) if lease.marker else []
        alive = {process for process in (*lease.processes, *by_marker) if process.alive}
        if alive:
            found.append((lease, sorted(alive, key=lambda process: process.pid)))
    return found


def kill_sandboxes(place: Path) -> int:
    """SIGKILL everything of every sandbox below a place; returns how many there were."""
    found = living(place)
    for _, processes in found:
        for process in reversed(processes):
            kill(process)
    return len(found)


def left(place: Path, seen: set[ProcessIdentity]) -> dict[str, list[str]]:
    """What is there and should not be: processes, mounts, directories."""
    processes = [f"{process.pid}" for process in seen if process.alive]
    processes += [lease.name for lease, _ in living(place)]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(place) in line]
    tidy = [*place.rglob("tmp"), *place.rglob("uploads")]
    directories = [str(entry) for place in tidy if "site-packages" not in str(place) for entry in place.iterdir()]
    directories += [str(entry) for book in books(place) for entry in book.iterdir() if not _kept(entry.name)]
    found = {"processes": processes, "mounts": mounts, "directories": directories}
    return {name: entries for name, entries in found.items() if entries}


def _kept(name: str) -> bool:
    return name in KEPT or name.startswith(NODE_PREFIX)


Row = tuple[int, str, float, bytes, bytes]


def row_of(row: TrainingRow) -> Row:
    """What of a row does not depend on when it was played."""
    return (row.group_id, row.task, row.reward, row.tokens.tobytes(), row.loss_mask.tobytes())


def rows_of(place: Path) -> dict[str, list[Row]]:
    """All rows on disk by rollout; a half file is an error of `load_rows`."""
    rollouts = place / "runs/fault/attempt_1/rollouts"
    return {path.name: [row_of(row) for row in load_rows(path)] for path in sorted(rollouts.glob("*.npz"))}


def half_rows(place: Path, whole: dict[str, list[Row]]) -> list[str]:
    """Rows that a reader would see now and that no undisturbed run has."""
    run = place / "runs/fault/attempt_1"
    wrong = [name for name, rows in rows_of(place).items() if rows != whole[name]]
    spec = load_experiment(QUICKSTART / "experiment.yaml", ["rollout.batch_size=3"]).spec
    tasks = load_pool(QUICKSTART / "tasks")
    for number in range(ROLLOUTS):
        names = group_tasks(rollout_plan(spec, number, tasks))
        kept = FinishedTrials(run.joinpath("carried/finished")).load(number, names, range(1, 2))
        rows = [row_of(row) for trial in kept for row in trial.rows]
        wrong += [f"a trial of group {row[0]}" for row in rows if row not in whole[f"rollout_{number:06d}.npz"]]
    for log in (run / "trials").glob("*.jsonl"):
        wrong += [log.name for line in log.read_text().splitlines(keepends=True) if not _whole(line)]
    return wrong


def _whole(line: str) -> bool:
    try:
        return line.endswith("\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False
