"""One suite of promises, kept by every backend of the sandbox protocol that runs here: a spec may name any of them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from t1cli.spec.sandbox import HarborSandbox, LocalSandbox, PoolSandbox, SandboxLimits
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.sandbox.from_spec import sandbox_provider
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.sandbox.sandbox import Sandbox, SandboxError, SandboxProvider
from t1cli.terminal.tasks.load import load_pool

TASKS = Path(__file__).parents[2] / "experiments/quickstart/tasks"
HARBOR_DOUBLE = Path(__file__).parent / "harbor_double"
HARBOR_PYTHON = os.environ.get("T1_HARBOR_PYTHON", "")
"""An interpreter with Harbor itself and with pytest; `make verify-sandboxes` makes one."""

BACKENDS = ("process", "bubblewrap", "pool", "harbor_double", "harbor")

Body = Callable[[Sandbox], Awaitable[None]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real server process."""
    argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "pool", "serve"]
    argv += ["--port", "0", "--drain-seconds", "0"]
    directory = tmp_path_factory.mktemp("pool")
    with subprocess.Popen(
        [*argv, "--directory", str(directory)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())
        yield f"http://{place['host']}:{place['port']}"
        process.terminate()
        assert process.wait(120) == 0
    left = [line for line in (directory / "journal.jsonl").read_text().splitlines() if '"closed"' in line]
    assert left, "every lease is closed on record"


@pytest.fixture(params=BACKENDS)
def provider(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxProvider:
    if request.param != "process" and bubblewrap_problem():
        pytest.skip(bubblewrap_problem())
    if request.param == "pool":
        server = request.getfixturevalue("server")
        return sandbox_provider(PoolSandbox(urls=(server,), max_tasks=16, max_runs_per_task=8), tmp_path)
    if request.param == "harbor_double":
        monkeypatch.setenv("PYTHONPATH", str(HARBOR_DOUBLE))
        return sandbox_provider(harbor(sys.executable), tmp_path)
    if request.param == "harbor":
        if not HARBOR_PYTHON:
            pytest.skip("T1_HARBOR_PYTHON names no interpreter with Harbor")
        return sandbox_provider(harbor(HARBOR_PYTHON), tmp_path)
    limits = SandboxLimits(disk_mib=64)
    return sandbox_provider(LocalSandbox(backend=request.param, limits=limits), tmp_path)


def harbor(python: str) -> HarborSandbox:
    """Harbor with an environment that needs bubblewrap alone."""
    environment = "t1cli.terminal.sandbox.harbor.bubblewrap:BubblewrapEnvironment"
    return HarborSandbox(
        environment=environment, python=python, capacity=2, creation_per_second=100.0, options={"disk_mib": 64}
    )


def inside(provider: SandboxProvider, body: Body) -> None:
    async def whole() -> None:
        try:
            sandbox = await provider.create(f"contract-{time.monotonic_ns()}", owner="contract")
            try:
                await body(sandbox)
            finally:
                await sandbox.close()
                await sandbox.close()
        finally:
            await provider.close()

    asyncio.run(whole())


def test_commands_files_and_jobs_persist(provider: SandboxProvider) -> None:
    async def body(sandbox: Sandbox) -> None:
        first = await sandbox.exec("echo one > file; sleep 300 & echo out; echo err >&2; exit 3", timeout_seconds=120)
        assert (first.output, first.exit_code, first.timed_out) == ("out\nerr\n", 3, False)
        second = await sandbox.exec('echo "$GREETING"; cat file', timeout_seconds=120, env={"GREETING": "ho'llo"})
        assert second.output == "ho'llo\none\n"
        assert (await sandbox.exec("pwd", timeout_seconds=120, cwd="/tmp")).output.endswith("/tmp\n")
        assert await sandbox.end_processes() >= 1
        assert await sandbox.end_processes() == 0

    inside(provider, body)


def test_a_time_limit_is_124_and_the_sandbox_lives_on(provider: SandboxProvider) -> None:
    async def body(sandbox: Sandbox) -> None:
        result = await sandbox.exec("echo begun; sleep 60", timeout_seconds=3)
        assert (result.output, result.exit_code, result.timed_out) == ("begun\n", 124, True)
        assert (await sandbox.exec("echo alive", timeout_seconds=120)).output == "alive\n"

    inside(provider, body)


def test_directories_are_placed_replaced_and_read(provider: SandboxProvider, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "sub" / "run.sh").write_text("echo ran")
    (source / "sub" / "run.sh").chmod(0o755)
    (source / "data.bin").write_bytes(bytes(range(256)))
    (source / "link").symlink_to("/etc/passwd")

    async def body(sandbox: Sandbox) -> None:
        await sandbox.exec("mkdir -p sub && echo old > sub/kept", timeout_seconds=120)
        await sandbox.put_directory(source, "/work", read_only=False)
        assert (await sandbox.exec("sub/run.sh; cat sub/kept; ls -d sub/empty", timeout_seconds=120)).output == (
            "ran\nold\nsub/empty\n"
        )
        assert await sandbox.read_file("/work/data.bin", max_bytes=256) == bytes(range(256))
        assert await sandbox.read_file("/work/link", max_bytes=4096) is None
        await sandbox.exec('echo planted > "${T1_ROOT:-}/tests/planted" 2>/dev/null', timeout_seconds=120)
        await sandbox.put_directory(source, "/tests", read_only=True)
        assert await sandbox.read_file("/tests/planted", max_bytes=100) is None
        assert await sandbox.read_file("/tests/sub/run.sh", max_bytes=100) == b"echo ran"
        await sandbox.reset_directory("/work")
        assert (await sandbox.exec("ls; touch mine && ls", timeout_seconds=120)).output == "mine\n"

    inside(provider, body)


def test_no_link_of_an_agent_is_followed(provider: SandboxProvider) -> None:
    async def body(sandbox: Sandbox) -> None:
        await sandbox.exec("ln -s /etc/passwd link; ln -s /etc etc; mkfifo pipe", timeout_seconds=120)
        for path in ("/work/link", "/work/etc/passwd", "/work/pipe", "/work/absent"):
            assert await sandbox.read_file(path, max_bytes=100_000) is None, path
        with pytest.raises(SandboxError):
            await sandbox.read_file("/work/../etc/passwd", max_bytes=100_000)

    inside(provider, body)


def test_a_file_above_the_limit_and_a_closed_sandbox_raise(provider: SandboxProvider) -> None:
    async def body(sandbox: Sandbox) -> None:
        await sandbox.exec("echo 123456789 > file", timeout_seconds=120)
        with pytest.raises(SandboxError, match="larger than 4 bytes"):
            await sandbox.read_file("/work/file", max_bytes=4)
        await sandbox.close()
        with pytest.raises(SandboxError, match="gone"):
            await sandbox.exec("echo no", timeout_seconds=120)

    inside(provider, body)


def test_words_that_no_program_can_be_given_lose_no_sandbox(provider: SandboxProvider) -> None:
    """What a policy writes is its own doing: it must not pass for a sandbox that was lost."""

    async def body(sandbox: Sandbox) -> None:
        for command in ("echo " + "x" * 3_000_000, "echo a\0b"):
            result = await sandbox.exec(command, timeout_seconds=60)
            assert result.exit_code in (0, 126) and result.output and not result.timed_out, command[:20]
        assert (await sandbox.exec("echo alive", timeout_seconds=60)).output == "alive\n"

    inside(provider, body)


def test_large_output_is_bounded(provider: SandboxProvider) -> None:
    async def body(sandbox: Sandbox) -> None:
        text = (await sandbox.exec("echo first; yes | head -c 3000000; echo last", timeout_seconds=120)).output
        assert text.startswith("first\n") and text.endswith("last\n") and len(text) < 300_000

    inside(provider, body)


def test_an_oracle_is_graded_full_and_a_no_op_is_not(provider: SandboxProvider, tmp_path: Path) -> None:
    task = load_pool(TASKS)[0]

    async def body(sandbox: Sandbox) -> None:
        if task.environment is not None:
            await sandbox.put_directory(task.environment, "/work", read_only=False)
        nothing = await grade(task, sandbox, trial_dir=tmp_path / "no-op")
        await sandbox.put_directory(task.solution, "/solution", read_only=True)
        await sandbox.exec('sh "${T1_ROOT:-}/solution/solve.sh"', timeout_seconds=120)
        full = await grade(task, sandbox, trial_dir=tmp_path / "oracle")
        assert (nothing.solved, full.solved, full.ctrf, full.passed) == (False, True, "ok", task.expected_tests)

    inside(provider, body)


def test_a_cancelled_command_ends(provider: SandboxProvider) -> None:
    async def body(sandbox: Sandbox) -> None:
        running = asyncio.ensure_future(sandbox.exec("touch begun; sleep 304", timeout_seconds=60))
        deadline = time.monotonic() + 120
        while await sandbox.read_file("/work/begun", max_bytes=10) is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    inside(provider, body)
