"""What is left of Harbor environments when their worker, their owner, or both are killed: nothing that can be ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from t1cli.errors import CouldNotAsk
from t1cli.spec.sandbox import HarborSandbox
from t1cli.terminal.sandbox.harbor.provider import HarborProvider
from t1cli.terminal.sandbox.harbor.settings import WorkerSettings
from t1cli.terminal.sandbox.leases import Lease, LeaseBook
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.sandbox.process_identity import ProcessIdentity
from t1cli.terminal.sandbox.sandbox import Placement, SandboxError
from t1cli.terminal.sandbox.sweep import sweep_directory
from t1cli.terminal.tasks.load import load_task

pytestmark = pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap here: {bubblewrap_problem()}")

HERE = Path(__file__).parent
HARBOR_PYTHON = os.environ.get("T1_HARBOR_PYTHON", "")
DEADLINE_SECONDS = 120.0

MakeSpec = Callable[..., HarborSandbox]


@pytest.fixture(params=["double", "harbor"])
def make_spec(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSpec:
    """Makes specs of environments that leave machines in `tmp_path/machines`."""
    if request.param == "harbor" and not HARBOR_PYTHON:
        pytest.skip("T1_HARBOR_PYTHON names no interpreter with Harbor")
    double = f":{HERE / 'harbor_double'}" if request.param == "double" else ""
    monkeypatch.setenv("PYTHONPATH", f"{HERE / 'harbor_faults'}{double}")
    python = HARBOR_PYTHON if request.param == "harbor" else sys.executable

    def make(capacity: int = 1, **options: Any) -> HarborSandbox:
        options = {"machines": str(tmp_path / "machines"), **options}
        kind = "faulty_environments:Leaving"
        return HarborSandbox(
            environment=kind, python=python, capacity=capacity, creation_per_second=100.0, options=options
        )

    return make


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(4 * DEADLINE_SECONDS):
            await work

    asyncio.run(bounded())


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def machines(tmp_path: Path) -> list[ProcessIdentity]:
    """Machines that are alive."""
    records = (tmp_path / "machines").glob("*") if (tmp_path / "machines").is_dir() else ()
    found = [record.read_text().split() for record in records]
    return [machine for pid, start in found if (machine := ProcessIdentity(int(pid), start)).alive]


def still_open(tmp_path: Path) -> list[str]:
    return [lease.name for lease in LeaseBook(tmp_path / "harbor").leases() if not lease.closed]


def kill_worker(tmp_path: Path, name: str) -> None:
    lease = next(lease for lease in LeaseBook(tmp_path / "harbor").leases() if lease.name == name)
    os.kill(lease.processes[0].pid, signal.SIGKILL)


@pytest.mark.catalogue("S3")
def test_a_killed_worker_loses_its_sandboxes_and_is_started_anew(make_spec: MakeSpec, tmp_path: Path) -> None:
    async def work() -> None:
        provider = HarborProvider(make_spec(), tmp_path)
        first = await provider.create("first", owner="run")
        running = asyncio.ensure_future(first.exec("sleep 1000", timeout_seconds=3600))
        await asyncio.sleep(0.5)
        kill_worker(tmp_path, "first")
        with pytest.raises(SandboxError, match="worker ended with status -9"):
            await running
        with pytest.raises(SandboxError, match="worker ended with status -9"):
            await first.exec("echo", timeout_seconds=60)
        assert (still_open(tmp_path), len(machines(tmp_path))) == (["first"], 1)
        with pytest.raises(SandboxError, match="gone"):
            await first.close()
        # Its place is free again, and the new worker ends what the old one left.
        second = await provider.create("second", owner="run")
        assert (await second.exec("echo alive", timeout_seconds=60)).output == "alive\n"
        assert (still_open(tmp_path), len(machines(tmp_path))) == (["second"], 1)
        await provider.close()
        assert (still_open(tmp_path), machines(tmp_path)) == ([], [])

    run(work())


DRIVER = """
import asyncio, json, sys
from pathlib import Path
from t1cli.errors import CouldNotAsk
from t1cli.spec.sandbox import HarborSandbox
from t1cli.terminal.sandbox.harbor.provider import HarborProvider

async def main():
    provider = HarborProvider(HarborSandbox.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
    for name in ("one", "two"):
        await provider.create(name, owner="run")
    print("ready", flush=True)
    await asyncio.sleep(1e6)

asyncio.run(main())
"""


@pytest.mark.parametrize("also_worker", [False, True], ids=["owner", "owner_and_worker"])
@pytest.mark.catalogue("S3")
def test_a_killed_owner_leaves_nothing(make_spec: MakeSpec, tmp_path: Path, also_worker: bool) -> None:
    argv = [sys.executable, "-c", DRIVER, make_spec(capacity=2).model_dump_json(), str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
        assert (still_open(tmp_path), len(machines(tmp_path))) == (["one", "two"], 2)
        # A sweep meanwhile touches nothing of a live owner.
        assert sweep_directory(tmp_path / "harbor") == ()
        if also_worker:
            os.kill(driver.pid, signal.SIGSTOP)
            kill_worker(tmp_path, "one")
        driver.kill()
    if not also_worker:
        until(lambda: not still_open(tmp_path) and not machines(tmp_path), "the worker ends what it has")
        assert sweep_directory(tmp_path / "harbor") == ()
        return
    assert len(machines(tmp_path)) == 2
    assert sweep_directory(tmp_path / "harbor", "another run") == ()
    assert sweep_directory(tmp_path / "harbor", "run") == ("one", "two")
    assert (still_open(tmp_path), machines(tmp_path)) == ([], [])
    assert list((tmp_path / "harbor" / "live").iterdir()) == []


def test_a_creation_that_is_cancelled_or_too_slow_leaves_nothing(make_spec: MakeSpec, tmp_path: Path) -> None:
    async def work() -> None:
        spec = make_spec(hang_start=True)
        provider = HarborProvider(spec, tmp_path)
        creating = asyncio.ensure_future(provider.create("cancelled", owner="run"))
        while not machines(tmp_path):
            await asyncio.sleep(0.05)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        while still_open(tmp_path):
            await asyncio.sleep(0.05)
        assert machines(tmp_path) == []
        await provider.close()
        slow = HarborProvider(spec.model_copy(update={"create_seconds": 2.0}), tmp_path)
        with pytest.raises(SandboxError, match="cannot create slow: TimeoutError"):
            await slow.create("slow", owner="run")
        assert (still_open(tmp_path), machines(tmp_path)) == ([], [])
        await slow.close()

    run(work())


def test_a_creation_cancelled_at_any_moment_leaves_neither_machine_nor_place(
    make_spec: MakeSpec, tmp_path: Path
) -> None:
    async def work() -> None:
        provider = HarborProvider(make_spec(), tmp_path)
        await (await provider.create("warm", owner="run")).close()
        began = time.monotonic()
        await (await provider.create("timed", owner="run")).close()
        whole = time.monotonic() - began
        for number in range(12):
            creating = asyncio.ensure_future(provider.create(f"cancelled-{number}", owner="run"))
            await asyncio.sleep(whole * number / 10)
            creating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await creating).close()
        last = await provider.create("last", owner="run")
        assert (await last.exec("echo alive", timeout_seconds=60)).output == "alive\n"
        assert (still_open(tmp_path), len(machines(tmp_path))) == (["last"], 1)
        await provider.close()

    run(work())


def test_what_its_provider_does_not_end_stays_on_record(make_spec: MakeSpec, tmp_path: Path) -> None:
    flag = tmp_path / "away"

    async def work() -> None:
        provider = HarborProvider(make_spec(refuse_stop=str(flag)), tmp_path)
        sandbox = await provider.create("kept", owner="run")
        flag.touch()
        with pytest.raises(SandboxError, match="cannot end kept: ConnectionError: the provider is away"):
            await sandbox.close()
        assert (still_open(tmp_path), len(machines(tmp_path))) == (["kept"], 1)
        await provider.close()

    run(work())
    lease = LeaseBook(tmp_path / "harbor").leases()[0]
    assert lease.owner_alive, "this process"
    flag.unlink()
    program = "import json, sys; from pathlib import Path; from t1cli.terminal.sandbox.sweep import sweep_directory\n"
    # As another session would see it: an owner that is no more.
    book = LeaseBook(tmp_path / "harbor")
    book.path.write_text(book.path.read_text().replace(lease.owner, f"run/{os.getpid()}/1@gone"))
    program += "print(json.dumps(sweep_directory(Path(sys.argv[1]))))"
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "harbor")], capture_output=True, check=True, cwd=HERE.parents[1]
    )
    assert (json.loads(ran.stdout), still_open(tmp_path), machines(tmp_path)) == (["kept"], [], [])


def test_capacity_is_the_accounts(make_spec: MakeSpec, tmp_path: Path) -> None:
    async def work() -> None:
        provider = HarborProvider(make_spec(), tmp_path)
        first = await provider.create("first", owner="run")
        placement = Placement("task", "group")
        waiting = asyncio.ensure_future(provider.reserve("second", owner="run", placement=placement))
        left = asyncio.ensure_future(provider.reserve("left", owner="run", placement=placement))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await first.close()
        await waiting
        assert not left.done()
        await provider.give_up("second")
        await left
        await provider.give_up("left")
        await provider.give_up("left")
        third = await provider.create("third", owner="run")
        assert len(machines(tmp_path)) == 1
        await third.close()
        await provider.close()

    run(work())


def test_a_task_with_a_dockerfile_brings_its_own_files(make_spec: MakeSpec, tmp_path: Path) -> None:
    pool = HERE.parents[1] / "experiments/quickstart/tasks"
    built = next(path for path in sorted(pool.iterdir()) if (path / "environment/files").is_dir())
    task = load_task(built)

    async def work() -> None:
        provider = HarborProvider(make_spec(capacity=2), tmp_path)
        await provider.reserve("built", owner="run", placement=Placement(task.name, "group", str(task.path)))
        sandbox = await provider.create("built", owner="run")
        bare = await provider.create("bare", owner="run")
        assert task.environment is not None
        assert (await bare.exec("ls", timeout_seconds=60)).output == ""
        await sandbox.exec("rm -r *; echo mine > own", timeout_seconds=60)
        for one, files in ((sandbox, ["own"]), (bare, sorted(os.listdir(task.environment)))):
            await one.put_directory(task.environment, "/work", read_only=False)
            assert (await one.exec("ls", timeout_seconds=60)).output.split() == files
        await provider.close()

    run(work())


def test_a_python_without_harbor_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")

    async def work(python: str, message: str) -> None:
        provider = HarborProvider(HarborSandbox(environment="docker", capacity=1, python=python), tmp_path)
        with pytest.raises(SandboxError, match=message):
            await provider.create("one", owner="run")
        await provider.close()

    run(work("/bin/false", "ended with status 1"))
    if sys.version_info < (3, 12):
        run(work(sys.executable, "has no package named harbor"))


def test_what_is_left_and_cannot_be_asked_about_is_said_so(tmp_path: Path) -> None:
    directory = tmp_path / "sandboxes" / "harbor"
    spec = HarborSandbox(environment="docker", capacity=1, python="/bin/false")
    book = LeaseBook(directory)
    settings = WorkerSettings.of(spec, "/bin/false", directory).as_json()
    (directory / "harbor.json").write_text(json.dumps(settings))
    book.ask(Lease("left", "run/4194304/1@gone"))
    with pytest.raises(CouldNotAsk, match="1 sandboxes of dead owners are on record, and Harbor's worker ended"):
        sweep_directory(directory)
    argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "pool", "sweep", str(tmp_path)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=HERE.parents[1])
    assert ran.returncode == 3 and "t1 pool sweep" in ran.stderr and "Traceback" not in ran.stderr
    assert [lease.closed for lease in book.leases()] == [False]


def test_an_environment_that_exits_ends_no_worker(make_spec: MakeSpec, tmp_path: Path) -> None:
    async def work() -> None:
        provider = HarborProvider(make_spec(exit_start=True), tmp_path)
        for name in ("one", "two"):
            with pytest.raises(SandboxError, match=f"cannot create {name}: SystemExit: no package"):
                await provider.create(name, owner="run")
        assert len({lease.processes for lease in provider.book.leases()}) == 1, "the same worker"
        assert (still_open(tmp_path), machines(tmp_path)) == ([], [])
        await provider.close()

    run(work())
