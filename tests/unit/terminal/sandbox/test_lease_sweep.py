"""What a killed owner leaves behind is found by the record alone, and nothing else is ever touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.terminal.sandbox.harbor.settings import SETTINGS
from t1cli.terminal.sandbox.leases import Lease, LeaseBook, full_owner, owner_matches, owner_process
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.sandbox.local_process import MARKER, marked
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, identify, kill, this_process
from t1cli.terminal.sandbox.sandbox import SandboxError
from t1cli.terminal.sandbox.sweep import sweep_directory, sweep_record

OWNER = """
import asyncio, sys
from pathlib import Path
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.local import LocalProvider

async def main():
    provider = LocalProvider(LocalSandbox(backend=sys.argv[1]), Path(sys.argv[2]))
    live = [await provider.create(f"left-{number}", owner="dead-run") for number in range(2)]
    for sandbox in live:
        await sandbox.exec(f"setsid sleep {sys.argv[3]}1 & touch mark", timeout_seconds=120)
    print("ready", flush=True)
    await asyncio.gather(*(sandbox.exec(f"sleep {sys.argv[3]}2", timeout_seconds=600) for sandbox in live))

asyncio.run(main())
"""


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def sleepers(tag: str) -> list[int]:
    """Host processes that run one of the owner's sleeps."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if command in (f"sleep\0{tag}1\0".encode(), f"sleep\0{tag}2\0".encode()):
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("backend", ["bubblewrap", "process"])
def test_sigkill_of_the_owner_leaves_nothing_after_a_sweep(backend: str, tmp_path: Path) -> None:
    if backend == "bubblewrap" and bubblewrap_problem():
        pytest.skip(bubblewrap_problem())
    mounts = Path("/proc/mounts").read_text()
    tag = str(os.getpid() + 1_000_000 * len(backend))
    owner = subprocess.Popen([sys.executable, "-c", OWNER, backend, str(tmp_path), tag], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    wait_until(lambda: len(sleepers(tag)) == 4)
    assert sweep_directory(tmp_path) == (), "a live owner's sandboxes are never swept"
    assert len(sleepers(tag)) == 4

    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert sweep_directory(tmp_path, "another-run") == ()
    assert sweep_directory(tmp_path, "dead-run") == ("left-0", "left-1")
    wait_until(lambda: not sleepers(tag))
    assert sweep_directory(tmp_path, "dead-run") == ()
    assert not any(process.alive for lease in LeaseBook(tmp_path).leases() for process in lease.processes)
    assert not list(tmp_path.glob("left-*"))
    assert Path("/proc/mounts").read_text() == mounts


DIES_CREATING = """
import asyncio, os, signal, sys
from pathlib import Path
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.local import LocalProvider

provider = LocalProvider(LocalSandbox(backend="bubblewrap"), Path(sys.argv[1]))
LeaseBook.started = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(provider.create("half", owner="dead-run"))
"""


@pytest.mark.skipif(bool(bubblewrap_problem()), reason="bubblewrap does not work here")
def test_an_owner_killed_before_it_could_record_the_processes_leaves_none_either(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", DIES_CREATING, str(tmp_path)], timeout=120)
    assert dead.returncode == -signal.SIGKILL
    lease = next(lease for lease in LeaseBook(tmp_path).leases() if lease.name == "half")
    assert lease.marker and not lease.processes
    assert "half" in sweep_directory(tmp_path, "dead-run")
    wait_until(lambda: not list(marked(lease.marker)))


def test_a_reused_pid_is_not_killed(tmp_path: Path) -> None:
    innocent = subprocess.Popen(["sleep", "60"])
    try:
        book = LeaseBook(tmp_path)
        book.ask(Lease("old", "run/999999999/1@deadboot"))
        book.started("old", (ProcessIdentity(innocent.pid, "1@deadboot"),))
        assert sweep_directory(tmp_path) == ("old",)
        assert innocent.poll() is None
        found = identify(innocent.pid)
        assert found is not None and kill(found)
        assert innocent.wait(120) == -signal.SIGKILL
        assert not found.alive and identify(innocent.pid) is None
    finally:
        innocent.kill()


def test_what_does_not_end_stays_on_record_until_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process does that waits for a disk: SIGKILL is pending, and the sandbox is not gone."""
    stuck = subprocess.Popen(["sleep", "600"])
    hidden = subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: "of-this-test"})
    try:
        book = LeaseBook(tmp_path)
        book.ask(Lease("held", "run/999999999/1@deadboot"))
        book.started("held", (identify(stuck.pid) or this_process(),))
        book.ask(Lease("marked", "run/999999999/1@deadboot", "of-this-test"))
        book.ask(Lease("empty", "run/999999999/1@deadboot"))
        (tmp_path / "marked").mkdir()
        wait_until(lambda: [process.pid for process in marked("of-this-test")] == [hidden.pid])
        for room in ("sweep", "local_process"):
            monkeypatch.setattr(f"t1cli.terminal.sandbox.{room}.kill", lambda process: False)
        found = sweep_record(tmp_path)
        assert found.names == ("empty",) and (tmp_path / "marked").is_dir()
        assert found.failed == {
            "held": f"process {stuck.pid} does not end",
            "marked": f"process {hidden.pid} does not end",
        }
        assert [lease.name for lease in book.leases() if not lease.closed] == ["held", "marked"]
        answer = CliRunner().invoke(app, ["pool", "sweep", str(tmp_path), "--json"])
        assert answer.exit_code == 3 and set(json.loads(answer.stdout)["failed"][str(tmp_path)]) == {"held", "marked"}
        assert "held is still there" in answer.stderr and "marked is still there" in answer.stderr
        monkeypatch.undo()
        assert sweep_record(tmp_path).names == ("held", "marked") and not (tmp_path / "marked").exists()
    finally:
        for process in (stuck, hidden):
            process.kill()
            process.wait()


def test_one_harbor_environment_that_cannot_be_ended_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    class Link:
        async def call(self, method: str, *, name: str) -> None:
            asked.append(name)
            if name == "spoilt":
                raise SandboxError("its task directory is gone")
            LeaseBook(tmp_path).closed(name)

        async def close(self) -> None: ...

    async def start(settings: object) -> Link:
        return Link()

    monkeypatch.setattr("t1cli.terminal.sandbox.harbor.sweep.WorkerLink", SimpleNamespace(start=start))
    monkeypatch.setattr("t1cli.terminal.sandbox.harbor.sweep.WorkerSettings", dict)
    (tmp_path / SETTINGS).write_text("{}")
    for name in ("first", "spoilt", "last"):
        LeaseBook(tmp_path).ask(Lease(name, "run/999999999/1@deadboot"))
    found = sweep_record(tmp_path)
    assert asked == ["first", "spoilt", "last"] and found.names == ("first", "last")
    assert found.failed == {"spoilt": "its task directory is gone"}
    # A campaign that starts goes on, and says so.
    assert sweep_directory(tmp_path) == () and "spoilt of a dead owner is still there" in caplog.text


def test_a_sweep_removes_only_what_lies_directly_in_its_directory(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    directory = tmp_path / "sandboxes"
    book = LeaseBook(directory)
    (directory / "linked").symlink_to(outside)
    with book.path.open("a") as file:
        for name in ("../outside", "linked"):
            file.write(f'{{"event": "asked", "name": "{name}", "owner": "run/999999999/1@x", "marker": "none"}}\n')
        file.write('{"event": "asked", "name": "cut')
    assert sweep_directory(directory) == ("linked",), "a name that is a path was never ours"
    assert outside.is_dir()


def test_owners_name_a_process_for_good() -> None:
    mine = full_owner("run-1")
    assert owner_process(mine) == this_process() and this_process().alive
    assert full_owner(mine) == mine
    assert owner_matches(mine, "run-1") and owner_matches(mine, mine) and not owner_matches(mine, "run")
    assert owner_process("run-1") is None
    assert not ProcessIdentity(os.getpid(), "0@0").alive


@given(st.lists(st.sampled_from(["asked", "started", "closed", "torn"]), max_size=20))
def test_the_record_survives_any_order_and_torn_lines(
    tmp_path_factory: pytest.TempPathFactory, events: list[str]
) -> None:
    book = LeaseBook(tmp_path_factory.mktemp("leases"))
    for event in events:
        if event == "asked":
            book.ask(Lease("one", "run"))
        elif event == "started":
            book.started("one", (this_process(),))
        elif event == "closed":
            book.closed("one")
        else:
            with book.path.open("a") as file:
                file.write('{"event": "closed", "na\n')
    leases = book.leases()
    assert bool(leases) == ("asked" in events)
    last = [event for event in events if event != "torn"]
    if leases and last[-1] == "closed":
        assert leases[0].closed


@pytest.mark.parametrize("name", ["..", ".", "../other", "/etc", "", "a/b"])
def test_a_record_with_names_that_lead_elsewhere_removes_nothing(name: str, tmp_path: Path) -> None:
    place = tmp_path / "sandboxes"
    (tmp_path / "other").mkdir()
    place.mkdir()
    (tmp_path / "precious").touch()
    asked = {"event": "asked", "name": name, "owner": "run/1/2@3", "marker": "m" * 32}
    (place / "leases.jsonl").write_text(json.dumps(asked) + "\n")
    assert sweep_directory(place) == ()
    assert {entry.name for entry in tmp_path.iterdir()} == {"other", "precious", "sandboxes"}


def test_lines_that_we_never_wrote_are_passed_over(tmp_path: Path) -> None:
    lines = [
        {"event": "asked", "name": "one", "owner": "run/1/2@3"},
        {"event": "started", "name": "one", "processes": [{"pid": 1}, 7, {"pid": "1", "start": "x"}, {"start": 3}]},
        {"event": "asked", "name": 7, "owner": []},
        {"event": "asked", "name": "two", "owner": "run/\u00b2/2@3"},
    ]
    (tmp_path / "leases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    leases = LeaseBook(tmp_path).leases()
    assert [(lease.name, lease.processes) for lease in leases] == [("one", ()), ("7", ()), ("two", ())]
    assert not any(lease.owner_alive for lease in leases)
