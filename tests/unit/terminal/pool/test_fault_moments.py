"""Fault × moment: who dies, hangs or fails, and when. Afterwards nothing is left, no half row can be read, and the
campaign has the rows that an undisturbed one has, task by task and token by token.

The driver plays two rollouts of three trials by the product's own code; it is held at the moment until the fault has
struck. `make test` takes the cells below QUICK, `make verify-sandboxes` all of them, and both print the table.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from t1cli.terminal.sandbox.local import bubblewrap_problem

from .fault_site import PLACES, Driver, Row, Server, half_rows, kill_sandboxes, left, living, rows_of, until

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap: {bubblewrap_problem()}"),
]

TRIAL = ("create", "mid-trial", "mid-grade")
SAVE = ("mid-save", "mid-save of all")
"""One finished trial being written; a whole rollout being written, when no sandbox lives any more."""
QUICK = {
    "driver": (*TRIAL, *SAVE),
    "sandbox": ("mid-trial",),
    "trial worker": ("mid-trial",),
    "provider fails": ("create", "mid-save"),
}


def cells(row: str, moments: tuple[str, ...]) -> pytest.MarkDecorator:
    """The moments of one row of the table; those that take long are for `make verify-sandboxes`."""
    slow = [moment for moment in moments if moment not in QUICK.get(row, ())]
    given = [pytest.param(moment, marks=[pytest.mark.slow] if moment in slow else []) for moment in moments]
    return pytest.mark.parametrize("moment", given)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """The rows of an undisturbed campaign."""
    place = tmp_path_factory.mktemp("undisturbed")
    driver = Driver(place)
    last = driver.end()
    assert last["lost"] == {} and last["played"] == 6
    rows = rows_of(place)
    assert [len(found) for found in rows.values()] == [3, 3] and all(row[2] > 0 for row in rows["rollout_000001.npz"])
    return rows


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server")
    yield server
    server.end()


@pytest.fixture(autouse=True)
def no_driver_outlives_its_test() -> Iterator[None]:
    """Also where the test fails between two moments."""
    yield
    while Driver.started:
        driver = Driver.started.pop()
        if driver.process.poll() is None:
            driver.kill()


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Puts a cell's figures into the report, for the table."""

    def put(row: str, moment: str, figure: str) -> None:
        request.node.user_properties.append(("fault", [row, moment, figure]))

    return put


def gone(driver: Driver) -> float:
    """Seconds until nothing is left."""
    began = time.monotonic()
    until(lambda: not left(driver.place, driver.seen), f"{left(driver.place, driver.seen)} is gone")
    return time.monotonic() - began


def resumed(driver: Driver, whole: dict[str, list[Row]], *options: str) -> int:
    """Start the driver again; it goes on with the same tasks. Returns how many trials it still had to play."""
    assert half_rows(driver.place, whole) == []
    again = Driver(driver.place, *options)
    last = again.end()
    assert rows_of(driver.place) == whole and not last["aborted"]
    assert not left(driver.place, driver.seen)
    hidden = [path.name for path in driver.place.joinpath("runs/fault/attempt_1/rollouts").iterdir()]
    assert sorted(hidden) == sorted(whole), "a file that was cut off is gone as well"
    return int(last["played"])


def went_on(driver: Driver, whole: dict[str, list[Row]]) -> dict[str, int]:
    """Let the driver go on to its end, whole by itself. Returns what it lost, by cause."""
    driver.go()
    last = driver.end()
    assert rows_of(driver.place) == whole and not last["aborted"] and half_rows(driver.place, whole) == []
    return dict(last["lost"])


def lost(counts: dict[str, int], moment: str, *boundaries: str) -> str:
    """Only the infrastructure lost trials, and at a trial's moments it did."""
    assert {cause.split("/")[0] for cause in counts} <= set(boundaries), counts
    assert counts or moment in SAVE
    return f"{sum(counts.values())} played again"


@cells("driver", (*TRIAL, *SAVE))
def test_a_killed_driver(moment: str, tmp_path: Path, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment)
    driver.at()
    driver.kill()
    seconds = gone(driver)
    played = resumed(driver, whole)
    # What was saved before is not played again; of a rollout that was being written that is all of it.
    assert played in {"mid-trial": (4, 5), "mid-grade": (4, 5), "mid-save of all": (3,)}.get(moment, (4, 5, 6))
    cell("driver", moment, f"gone {seconds:.1f} s, {played} left to play")


@cells("driver, plain processes", (*TRIAL, *SAVE))
def test_a_killed_driver_with_plain_processes(moment: str, tmp_path: Path, whole, cell) -> None:
    """Nothing of the kernel's ends these: the next session's sweep does."""
    driver = Driver(tmp_path, "--moment", moment, "--backend", "process")
    driver.at()
    driver.kill()
    cell("driver, plain processes", moment, f"{resumed(driver, whole, '--backend', 'process')} left to play")


@cells("driver with a pool", (*TRIAL, *SAVE))
def test_a_killed_driver_with_leases_of_a_pool(moment: str, tmp_path: Path, server: Server, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment, "--url", server.url)
    driver.at()
    driver.kill()
    # Nobody sweeps: the leases end at their idle limit, once nothing runs on them any more.
    began = time.monotonic()
    until(lambda: server.free() == PLACES, "every place is free")
    seconds = time.monotonic() - began
    gone(driver)
    cell("driver with a pool", moment, f"gone {seconds:.1f} s, {resumed(driver, whole, '--url', server.url)} to play")


@cells("pool server", (*TRIAL, *SAVE))
def test_a_killed_pool_server(moment: str, tmp_path: Path, server: Server, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment, "--url", server.url)
    driver.at()
    server.kill()
    server.start()
    counts = went_on(driver, whole)
    seconds = gone(driver)
    assert server.free() == PLACES
    cell("pool server", moment, f"{lost(counts, moment, 'provider', 'sandbox', 'verifier')}, gone {seconds:.1f} s")


@cells("pool server hangs", (*TRIAL, *SAVE))
def test_a_pool_server_that_hangs_for_a_while(moment: str, tmp_path: Path, server: Server, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment, "--url", server.url)
    driver.at()
    server.signal(signal.SIGSTOP)
    driver.go()
    time.sleep(1.0)
    server.signal(signal.SIGCONT)
    counts = went_on(driver, whole)
    gone(driver)
    assert server.free() == PLACES
    cell("pool server hangs", moment, f"{sum(counts.values())} played again")


@cells("pool server hangs for good", (*TRIAL, "mid-save"))
def test_a_pool_server_that_hangs_for_good(moment: str, tmp_path: Path, server: Server, whole, cell) -> None:
    """The driver ends by its own deadlines, with losses and never with a score; later it resumes."""
    driver = Driver(tmp_path, "--moment", moment, "--url", server.url, "--wall", "15")
    driver.at()
    server.signal(signal.SIGSTOP)
    try:
        driver.go()
        last = driver.end()
        assert last["aborted"] and half_rows(driver.place, whole) == []
    finally:
        server.signal(signal.SIGCONT)
    until(lambda: server.free() == PLACES, "every place is free")
    gone(driver)
    cell("pool server hangs for good", moment, f"{resumed(driver, whole, '--url', server.url)} left to play")


@cells("sandbox", (*TRIAL, "mid-save"))
def test_killed_sandboxes(moment: str, tmp_path: Path, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment)
    driver.at()
    killed = kill_sandboxes(tmp_path)
    assert killed or moment == "mid-save"
    counts = went_on(driver, whole)
    gone(driver)
    cell("sandbox", moment, f"{killed} killed, {lost(counts, moment, 'provider', 'sandbox', 'verifier')}")


@cells("sandbox of a pool", (*TRIAL, "mid-save"))
def test_killed_sandboxes_of_a_pool(moment: str, tmp_path: Path, server: Server, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment, "--url", server.url)
    driver.at()
    if moment == "create":
        # The first that the server makes, before its client has heard of it or soon after.
        driver.go()
        until(lambda: living(server.directory), "there is a sandbox")
    killed = kill_sandboxes(server.directory)
    counts = went_on(driver, whole)
    gone(driver)
    until(lambda: server.free() == PLACES, "every place is free")
    again = f"{sum(counts.values())} played again"
    assert {cause.split("/")[0] for cause in counts} <= {"provider", "sandbox", "verifier"}
    cell("sandbox of a pool", moment, f"{killed} killed, {again}")


@cells("trial worker", (*TRIAL, *SAVE))
def test_a_killed_trial_worker(moment: str, tmp_path: Path, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment, "--workers")
    lose_a_worker(driver, moment)
    counts = went_on(driver, whole)
    seconds = gone(driver)
    cell("trial worker", moment, f"{lost(counts, moment, 'harness')}, gone {seconds:.1f} s")


@cells("trial worker with a pool", (*TRIAL, *SAVE))
def test_a_killed_trial_worker_with_leases_of_a_pool(moment: str, tmp_path: Path, server: Server, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment, "--workers", "--url", server.url)
    lose_a_worker(driver, moment)
    counts = went_on(driver, whole)
    began = time.monotonic()
    until(lambda: server.free() == PLACES, "every place is free")
    gone(driver)
    seconds = time.monotonic() - began
    cell("trial worker with a pool", moment, f"{lost(counts, moment, 'harness')}, gone {seconds:.1f} s")


def lose_a_worker(driver: Driver, moment: str) -> None:
    """Kill the worker that stands at the moment; the driver itself saves, so then it is any."""
    holder = driver.at()
    workers = driver.workers()
    assert len(workers) == 2
    victim = workers[0].pid if moment in SAVE else holder
    assert victim in {worker.pid for worker in workers}
    psutil.Process(victim).kill()
    until(lambda: len(driver.workers()) < 2, "the worker has ended")


@cells("provider fails", (*TRIAL, "mid-save"))
def test_a_provider_that_fails(moment: str, tmp_path: Path, whole, cell) -> None:
    driver = Driver(tmp_path, "--moment", moment, "--fails")
    counts = went_on(driver, whole)
    gone(driver)
    expected = {"create": "provider/sandbox_create", "mid-trial": "sandbox/sandbox_agent"}
    expected["mid-grade"] = "sandbox/sandbox_grade"
    # A machine that the provider did not end is swept with the rest; its trial was scored by then.
    assert counts == ({} if moment == "mid-save" else {expected[moment]: 1})
    cell("provider fails", moment, f"{sum(counts.values())} played again")
