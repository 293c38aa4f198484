"""Real bubblewrap sandboxes, confined both ways: by a user id of their own, and by a user namespace."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from t1cli.spec.sandbox import LocalSandbox, SandboxLimits
from t1cli.terminal.sandbox.confinement import Confinement
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.local import LocalProvider, bubblewrap_problem
from t1cli.terminal.sandbox.local_bubblewrap import BubblewrapSandbox, create_bubblewrap
from t1cli.terminal.sandbox.local_process import marked
from t1cli.terminal.sandbox.process_identity import ProcessIdentity
from t1cli.terminal.sandbox.sandbox import SandboxError

pytestmark = pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap here: {bubblewrap_problem()}")

LIMITS = SandboxLimits(memory_mib=128, disk_mib=16, max_processes=40)

Body = Callable[[BubblewrapSandbox], Awaitable[None]]
Runner = Callable[[Body], None]


@pytest.fixture(params=["own_user", "user_namespace"])
def in_sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    """Runs a test body in a fresh sandbox; both confinements where this process may choose."""
    if request.param == "own_user" and os.getuid() != 0:
        pytest.skip("only root gives a sandbox a user id of its own")
    user = 1_999_000_000 + os.getpid() % 100_000 if request.param == "own_user" else None

    def run(body: Body) -> None:
        async def whole() -> None:
            sandbox = await create_bubblewrap("test", Confinement(LIMITS, user, None), LeaseBook(tmp_path))
            try:
                await body(sandbox)
            finally:
                await sandbox.close()

        asyncio.run(whole())

    return run


async def output(sandbox: BubblewrapSandbox, command: str, timeout_seconds: float = 120.0) -> str:
    return (await sandbox.exec(command, timeout_seconds=timeout_seconds)).output


def test_files_and_background_jobs_persist_until_they_are_ended(in_sandbox: Runner) -> None:
    async def body(sandbox: BubblewrapSandbox) -> None:
        assert await sandbox.end_processes() == 0
        first = await sandbox.exec("echo one > file; (sleep 300; true) & cd /tmp; false", timeout_seconds=120)
        assert (first.exit_code, first.timed_out) == (1, False)
        assert await output(sandbox, "pwd; cat file") == "/work\none\n"
        assert "sleep 300" in await output(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert await sandbox.end_processes() >= 1
        assert await sandbox.end_processes() == 0
        assert "sleep 300" not in await output(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")

    in_sandbox(body)


def test_the_root_is_private_and_nothing_of_the_host_can_be_changed(in_sandbox: Runner, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.environ["T1_TEST_TOKEN"] = "secret"

    async def body(sandbox: BubblewrapSandbox) -> None:
        for command in (
            f"cat {secret}",
            "touch /usr/mark",
            "echo x > /proc/sys/kernel/hostname",
            "mount -o remount,rw /usr",
        ):
            assert (await sandbox.exec(command, timeout_seconds=120)).exit_code != 0, command
        assert "secret" not in await output(sandbox, "env; cat /proc/1/environ 2>&1")
        assert (await output(sandbox, "grep CapEff /proc/self/status")).split()[1].strip("0") == ""
        assert (await output(sandbox, "cat /proc/net/dev | tail -n +3 | wc -l")).strip() == "1"
        processes = await output(sandbox, "ls -d /proc/[0-9]* | wc -l")
        assert int(processes) < 8

    try:
        in_sandbox(body)
    finally:
        del os.environ["T1_TEST_TOKEN"]


def test_a_time_limit_kills_the_command_and_its_children_but_no_earlier_job(in_sandbox: Runner) -> None:
    async def body(sandbox: BubblewrapSandbox) -> None:
        await sandbox.exec("sleep 301 &", timeout_seconds=120)
        result = await sandbox.exec("echo begun; sleep 302 & sleep 303", timeout_seconds=3)
        assert (result.output, result.exit_code, result.timed_out) == ("begun\n", 124, True)
        left = await output(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "sleep 301" in left
        assert "sleep 302" not in left and "sleep 303" not in left

    in_sandbox(body)


def test_processes_that_fork_and_exit_without_end_are_seen_and_ended(in_sandbox: Runner) -> None:
    """None of them lives long; a look that finds only process 1 must not be luck."""
    walker = "walk() { [ -e stop ] || { walk & }; }; walk"

    async def body(sandbox: BubblewrapSandbox) -> None:
        for _ in range(5):
            await sandbox.exec(f"sh -c '{walker}' >/dev/null 2>&1; true", timeout_seconds=120)
            assert not any(sandbox._holder.is_alone() for _ in range(200))
            assert await sandbox.end_processes() >= 0
            assert sandbox._holder.is_alone()

    in_sandbox(body)


def test_a_cancelled_command_leaves_no_process(in_sandbox: Runner) -> None:
    async def body(sandbox: BubblewrapSandbox) -> None:
        running = asyncio.ensure_future(sandbox.exec("touch begun; sleep 304", timeout_seconds=60))
        while await sandbox.read_file("/work/begun", max_bytes=10) is None:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await sandbox.end_processes() == 0

    in_sandbox(body)


def test_large_output_is_bounded_and_says_so(in_sandbox: Runner) -> None:
    async def body(sandbox: BubblewrapSandbox) -> None:
        text = await output(sandbox, "echo first; yes | head -c 8000000; echo last")
        assert text.startswith("first\n") and text.endswith("last\n")
        assert len(text) < 300_000
        assert "bytes left out" in text

    in_sandbox(body)


def test_a_background_writer_neither_blocks_nor_dies_between_commands(in_sandbox: Runner) -> None:
    async def body(sandbox: BubblewrapSandbox) -> None:
        await sandbox.exec("(for i in 1 2 3; do echo noise; sleep 0.1; done; touch finished) &", timeout_seconds=120)
        deadline = time.monotonic() + 120
        while await sandbox.read_file("/work/finished", max_bytes=10) is None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert await output(sandbox, "echo mine") == "mine\n"

    in_sandbox(body)


def test_disk_and_memory_are_limited(in_sandbox: Runner) -> None:
    async def body(sandbox: BubblewrapSandbox) -> None:
        for place in ("/work/big", "/tmp/big", "/dev/shm/big"):
            result = await sandbox.exec(
                f"head -c 20000000 /dev/zero > {place}; stat -c %s {place}; rm {place}", timeout_seconds=120
            )
            assert int(result.output.split()[-1]) <= LIMITS.disk_mib * 1024 * 1024, place
        assert "cannot allocate" in await output(sandbox, "x=$(head -c 200000000 /dev/zero | tr '\\0' x)")

    in_sandbox(body)


def test_an_agent_cannot_end_its_own_sandbox(in_sandbox: Runner) -> None:
    async def body(sandbox: BubblewrapSandbox) -> None:
        await sandbox.exec("kill -9 1; kill -9 -1", timeout_seconds=120)
        await sandbox.exec("for i in $(seq 300); do (true &) ; done", timeout_seconds=120)
        assert await output(sandbox, "echo alive") == "alive\n"

    in_sandbox(body)


def test_links_and_pipes_lead_nowhere(in_sandbox: Runner, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file.txt").write_text("ours")

    async def body(sandbox: BubblewrapSandbox) -> None:
        await sandbox.exec(
            "ln -s /etc/passwd link; ln -s / root; mkfifo pipe; mkdir real; echo x > real/x", timeout_seconds=120
        )
        assert await sandbox.read_file("/work/link", max_bytes=10_000) is None
        assert await sandbox.read_file("/work/root/etc/passwd", max_bytes=10_000) is None
        assert await sandbox.read_file("/work/pipe", max_bytes=10) is None
        assert await sandbox.read_file("/work/real", max_bytes=10) is None
        assert await sandbox.read_file("/work/real/x", max_bytes=10) == b"x\n"
        with pytest.raises(SandboxError, match="larger than 1 bytes"):
            await sandbox.read_file("/work/real/x", max_bytes=1)
        with pytest.raises(SandboxError, match="not an absolute path"):
            await sandbox.read_file("/work/../../etc/passwd", max_bytes=10_000)
        await sandbox.put_directory(source, "/work/root", read_only=False)
        assert await output(sandbox, "cat root/file.txt; ls -d root/etc 2>/dev/null") == "ours"

    in_sandbox(body)


def test_what_was_placed_read_only_stays_as_it_is(in_sandbox: Runner, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "run.sh").write_text("echo ran")
    (source / "sub" / "run.sh").chmod(0o700)

    async def body(sandbox: BubblewrapSandbox) -> None:
        await sandbox.put_directory(source, "/tests", read_only=True)
        assert await output(sandbox, "sh /tests/sub/run.sh; stat -c %a /tests/sub/run.sh") == "ran\n555\n"
        if os.getuid() == 0 and "agent" in await output(sandbox, "id -un"):
            forced = "chmod -R u+w /tests; echo bad > /tests/sub/run.sh; rm -rf /tests/sub; mv /tests /gone"
            await sandbox.exec(forced, timeout_seconds=120)
            assert await sandbox.read_file("/tests/sub/run.sh", max_bytes=100) == b"echo ran"

    in_sandbox(body)


def test_a_fork_bomb_is_bounded_and_can_be_ended(tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(limits=LIMITS), tmp_path)

    async def whole() -> None:
        sandbox = await provider.create("bomb", owner="test")
        if (await sandbox.exec("id -u", timeout_seconds=120)).output != "0\n":
            many = "i=0; while [ $i -lt 200 ]; do setsid sleep 330 & i=$((i+1)); done"
            await sandbox.exec(f"sh -c '{many}'", timeout_seconds=120)
            assert LIMITS.max_processes / 2 < await sandbox.end_processes() <= LIMITS.max_processes
            await sandbox.exec("sh -c 'bomb() { bomb | bomb & }; bomb'", timeout_seconds=5)
            while await sandbox.end_processes():
                await asyncio.sleep(0.05)
        assert (await sandbox.exec("echo alive", timeout_seconds=120)).output == "alive\n"
        await provider.close()

    asyncio.run(whole())


def test_closing_leaves_no_process_and_no_descriptor(tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(), tmp_path)

    async def whole() -> tuple[int, int, int]:
        before = descriptors()
        live = [await provider.create(f"s-{number}", owner="test") for number in range(6)]
        running = [asyncio.ensure_future(one.exec("sleep 305 & sleep 306", timeout_seconds=60)) for one in live]
        await asyncio.sleep(0.2)
        during = descriptors()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await provider.close()
        await provider.close()
        return before, during, descriptors()

    before, during, after = asyncio.run(whole())
    assert (during - before) / 6 <= 6
    assert after == before
    leases = provider.leases.leases()
    assert len(leases) == 6 and all(lease.closed and len(lease.processes) == 2 for lease in leases)
    assert not any(process.alive for lease in leases for process in lease.processes)
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir()] == ["python"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_sandbox_that_died_raises_and_is_never_a_result(tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(), tmp_path)

    async def whole() -> None:
        sandbox = await provider.create("dies", owner="test")
        running = asyncio.ensure_future(sandbox.exec("touch begun; sleep 307", timeout_seconds=60))
        while await sandbox.read_file("/work/begun", max_bytes=10) is None:
            await asyncio.sleep(0.01)
        kill(provider.leases.leases()[0].processes[-1])
        with pytest.raises(SandboxError, match="gone"):
            await running
        with pytest.raises(SandboxError, match="gone"):
            await sandbox.read_file("/work/begun", max_bytes=10)
        await provider.close()

    asyncio.run(whole())


def kill(process: ProcessIdentity) -> None:
    assert process.alive
    os.kill(process.pid, signal.SIGKILL)


def test_one_provider_serves_several_event_loops_and_never_exceeds_its_capacity(tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(capacity=2), tmp_path)
    outputs: list[str] = []

    async def one(name: str) -> None:
        sandbox = await provider.create(name, owner="test")
        try:
            outputs.append((await sandbox.exec(f"echo {name}", timeout_seconds=120)).output)
        finally:
            await sandbox.close()

    async def several(prefix: str) -> None:
        await asyncio.gather(*(one(f"{prefix}-{number}") for number in range(5)))

    threads = [threading.Thread(target=lambda p=prefix: asyncio.run(several(p))) for prefix in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(outputs) == sorted(f"{prefix}-{number}\n" for prefix in "ab" for number in range(5))
    asyncio.run(several("c"))
    assert len(outputs) == 15


def test_names_that_could_be_paths_are_refused_before_anything_exists(tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(), tmp_path)
    for name in ("../up", "a/b", "", ".hidden", "x" * 200):
        with pytest.raises(SandboxError, match="not plain letters"):
            asyncio.run(provider.create(name, owner="test"))
    assert provider.leases.leases() == ()


def test_the_lease_is_on_record_when_creation_fails(tmp_path: Path) -> None:
    async def whole() -> None:
        leases = LeaseBook(tmp_path)
        broken = Confinement(SandboxLimits(), None, None)
        object.__setattr__(broken, "limits", SandboxLimits.model_construct(disk_mib=-1, network=False))
        with pytest.raises(SandboxError, match="bubblewrap did not start"):
            await create_bubblewrap("broken", broken, leases)

    before = descriptors()
    asyncio.run(whole())
    assert descriptors() == before


class _SlowStart(Confinement):
    """Its monitor has started process 1, which has not come to bind its life to anybody's."""

    def holder(self, *, info_fd: int, passwd_fd: int, group_fd: int) -> tuple[str, ...]:
        return ("sh", "-c", "sleep 300 & wait")


def test_a_creation_cancelled_before_process_1_is_known_leaves_no_process(tmp_path: Path) -> None:
    marker = f"cancelled-{os.getpid()}-{time.monotonic_ns()}"

    async def whole() -> None:
        confinement, book = _SlowStart(LIMITS, None, None), LeaseBook(tmp_path)
        creating = asyncio.ensure_future(create_bubblewrap("slow", confinement, book, marker=marker))
        async with asyncio.timeout(120):
            while len(list(marked(marker))) < 2:
                await asyncio.sleep(0.01)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating

    asyncio.run(whole())
    assert list(marked(marker)) == []


def test_process_1_ends_with_its_owner_whoever_has_signals_for_it(tmp_path: Path) -> None:
    """bubblewrap asks for a signal at its parent's death only late: until then an owner that dies gives none."""

    async def whole() -> None:
        sandbox = await create_bubblewrap("alone", Confinement(LIMITS, None, None), LeaseBook(tmp_path))
        holder = sandbox._holder
        try:
            # The only end of the pipe that its owner's death would close.
            os.close(holder.lifeline)
            holder.lifeline = -1
            async with asyncio.timeout(120):
                while holder.init.alive:
                    await asyncio.sleep(0.01)
        finally:
            await sandbox.close()

    asyncio.run(whole())


def test_a_second_close_waits_for_the_first(tmp_path: Path) -> None:
    async def whole() -> None:
        provider = LocalProvider(LocalSandbox(backend="bubblewrap", limits=LIMITS), tmp_path)
        sandbox = await provider.create("closed-twice", owner="test")
        first = asyncio.ensure_future(sandbox.close())
        await asyncio.sleep(0)
        assert not first.done()
        await sandbox.close()
        assert [lease.closed for lease in LeaseBook(tmp_path).leases()] == [True], (
            "what its directory is removed behind has nothing left to write"
        )
        await first
        await provider.close()

    asyncio.run(whole())
