"""Grading in real sandboxes: what an agent plants never becomes a score, and a broken verifier never a zero."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from t1cli.spec.sandbox import LocalSandbox, SandboxLimits
from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.sandbox import warm_pytest
from t1cli.terminal.sandbox.confinement import Confinement
from t1cli.terminal.sandbox.interpreter import make_verifier_python
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.local import LocalProvider, bubblewrap_problem
from t1cli.terminal.sandbox.local_bubblewrap import create_bubblewrap
from t1cli.terminal.sandbox.sandbox import ExecResult, Sandbox, SandboxError
from t1cli.terminal.sandbox.warm_pytest import RunsPytest, WarmPytest
from t1cli.terminal.tasks.generator import generate, write_harbor
from t1cli.terminal.tasks.load import load_task
from t1cli.terminal.tasks.task import Task

GOOD_REPORT = json.dumps({"results": {"tests": [{"name": f"t{n}", "status": "passed"} for n in range(50)]}})
PLANT = (
    f"mkdir -p $T1_ROOT/logs/verifier; echo '{GOOD_REPORT}' > $T1_ROOT/logs/verifier/ctrf.json; "
    "echo 1 > $T1_ROOT/logs/verifier/reward.txt"
)

Body = Callable[[Sandbox], Awaitable[None]]
InSandbox = Callable[[Body], None]


@pytest.fixture(params=["bubblewrap", "process"])
def in_sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> InSandbox:
    if request.param == "bubblewrap" and bubblewrap_problem():
        pytest.skip(bubblewrap_problem())
    spec = LocalSandbox(backend=request.param, limits=SandboxLimits(disk_mib=32))
    provider = LocalProvider(spec, tmp_path / "sandboxes")

    def run(body: Body) -> None:
        async def whole() -> None:
            sandbox = await provider.create("graded", owner="test")
            try:
                await body(sandbox)
            finally:
                await provider.close()

        asyncio.run(whole())

    return run


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(write_harbor(generate("combo", 2, random.Random(3)), tmp_path / "pool"))


def rewrite(task: Task, script: str) -> Task:
    (task.tests / "test.sh").write_text(script)
    return task


async def place(sandbox: Sandbox, task: Task) -> None:
    assert task.environment is not None
    await sandbox.put_directory(task.environment, "/work", read_only=False)


async def solve(sandbox: Sandbox, task: Task) -> None:
    await place(sandbox, task)
    for command in (task.solution / "solve.sh").read_text().splitlines()[2:]:
        assert (await sandbox.exec(command, timeout_seconds=120)).exit_code == 0


def test_solved_partly_solved_and_untouched(in_sandbox: InSandbox, task: Task, tmp_path: Path) -> None:
    async def body(sandbox: Sandbox) -> None:
        await place(sandbox, task)
        untouched = await grade(task, sandbox, trial_dir=tmp_path / "t0")
        first, *rest = (task.solution / "solve.sh").read_text().splitlines()[2:]
        await sandbox.exec(first, timeout_seconds=120)
        partly = await grade(task, sandbox, trial_dir=tmp_path / "t1")
        for command in rest:
            await sandbox.exec(command, timeout_seconds=120)
        solved = await grade(task, sandbox, trial_dir=tmp_path / "t2")
        total = task.expected_tests
        assert [(found.solved, found.ctrf, found.total) for found in (untouched, partly, solved)] == [
            (False, "ok", total),
            (False, "ok", total),
            (True, "ok", total),
        ]
        assert untouched.passed < partly.passed < solved.passed == total
        kept = sorted(path.name for path in (tmp_path / "t2" / "verifier").iterdir())
        assert kept == ["ctrf.json", "reward.txt", "test-stdout.txt"]

    in_sandbox(body)


@pytest.mark.catalogue("R4", "R11")
def test_planted_reports_are_refused(in_sandbox: InSandbox, task: Task, tmp_path: Path) -> None:
    async def body(sandbox: Sandbox) -> None:
        await place(sandbox, task)
        await sandbox.exec(PLANT, timeout_seconds=120)
        found = await grade(task, sandbox, trial_dir=tmp_path / "t0")
        assert not found.solved and found.passed == 0 and found.total == task.expected_tests

        # The same with a verifier that writes nothing at all: no file of the agent's takes its place.
        await sandbox.exec(PLANT, timeout_seconds=120)
        silent = rewrite(task, "#!/bin/sh\ntrue\n")
        with pytest.raises(VerifierError, match="reward_missing"):
            await grade(silent, sandbox, trial_dir=tmp_path / "t1")

    in_sandbox(body)


def test_a_background_writer_is_ended_before_the_tests_arrive(
    in_sandbox: InSandbox, task: Task, tmp_path: Path
) -> None:
    async def body(sandbox: Sandbox) -> None:
        await place(sandbox, task)
        loop = f"while :; do {PLANT}; echo 'exit 0' > $T1_ROOT/tests/test.sh; done >/dev/null 2>&1"
        await sandbox.exec(f"setsid sh -c '{loop.replace(chr(39), chr(34))}' & sleep 0.2", timeout_seconds=120)
        found = await grade(task, sandbox, trial_dir=tmp_path / "t0")
        assert found.processes_ended >= 1
        assert not found.solved and found.passed == 0 and found.ctrf == "ok"

    in_sandbox(body)


def test_links_in_place_of_the_log_and_test_directories_are_replaced(
    in_sandbox: InSandbox, task: Task, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()

    async def body(sandbox: Sandbox) -> None:
        await solve(sandbox, task)
        links = f'for d in logs/verifier tests; do rm -rf "$T1_ROOT/$d"; ln -s {victim} "$T1_ROOT/$d"; done'
        await sandbox.exec(links, timeout_seconds=120)
        assert (await grade(task, sandbox, trial_dir=tmp_path / "t0")).solved
        assert list(victim.iterdir()) == []

    in_sandbox(body)


def test_a_full_disk_and_a_locked_working_directory_are_graded_as_any_other_end(
    in_sandbox: InSandbox, task: Task, tmp_path: Path
) -> None:
    async def body(sandbox: Sandbox) -> None:
        await place(sandbox, task)
        if "T1_ROOT" not in (await sandbox.exec("env", timeout_seconds=120)).output:
            await sandbox.exec("cat /dev/zero > full; mkdir -p deep && cd deep && chmod 000 . ..", timeout_seconds=120)
        found = await grade(task, sandbox, trial_dir=tmp_path / "t0")
        assert not found.solved and found.ctrf == "ok" and found.total == task.expected_tests

    in_sandbox(body)


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("#!/bin/sh\nsleep 600\n", "verifier_timeout"),
        ("#!/bin/sh\nkill -9 $$\n", "reward_missing"),
        ("#!/bin/bash\nset -e\nfalse\n", "reward_missing"),
        ('#!/bin/sh\necho nan > "$T1_ROOT/logs/verifier/reward.txt"\n', "reward_unreadable"),
        ('#!/bin/sh\n: > "$T1_ROOT/logs/verifier/reward.txt"\n', "reward_unreadable"),
        ('#!/bin/sh\necho "{" > "$T1_ROOT/logs/verifier/reward.json"\n', "reward_unreadable"),
        ('#!/bin/sh\nhead -c 5000 /dev/zero > "$T1_ROOT/logs/verifier/reward.txt"\n', "reward_unreadable"),
        ('#!/bin/sh\nchmod u+w "$0" && echo >> "$0"; echo 1 > "$T1_ROOT/logs/verifier/reward.txt"\n', "tests_tampered"),
    ],
)
def test_a_verifier_that_breaks_is_an_infrastructure_failure(
    script: str, cause: str, task: Task, tmp_path: Path
) -> None:
    provider = LocalProvider(LocalSandbox(backend="process"), tmp_path / "sandboxes")
    limit_seconds = 1.5 if cause == "verifier_timeout" else 120.0

    async def whole() -> None:
        sandbox = await provider.create("broken", owner="test")
        try:
            with pytest.raises(VerifierError) as error:
                await grade(rewrite(task, script), sandbox, trial_dir=tmp_path / "t0", timeout_seconds=limit_seconds)
            assert error.value.cause == cause
        finally:
            await provider.close()

    asyncio.run(whole())


@pytest.mark.catalogue("R3")
def test_states_of_the_report(task: Task, tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(backend="process"), tmp_path / "sandboxes")
    log = '"$T1_ROOT/logs/verifier/'

    def script(report: str, reward: int) -> str:
        return f"#!/bin/sh\n{report}\necho {reward} > {log}reward.txt\n"

    old = json.dumps({"results": {"summary": {"start": (time.time() - 900) * 1000}, "tests": [{"status": "passed"}]}})
    cases = {
        "missing": script("", 1),
        "corrupt": script(f"echo '{GOOD_REPORT[:-9]}' > {log}ctrf.json", 1),
        "empty": script("echo '{\"tests\": []}' > " + f"{log}ctrf.json", 1),
        "stale": script(f"echo '{old}' > {log}ctrf.json", 1),
        "disagree": script(f"echo '{GOOD_REPORT}' > {log}ctrf.json", 0),
    }
    cases = {
        state: text.replace("ctrf.json", 'ctrf.json"').replace("reward.txt", 'reward.txt"')
        for state, text in cases.items()
    }

    async def whole() -> dict[str, Verdict]:
        sandbox = await provider.create("states", owner="test")
        try:
            return {
                state: await grade(rewrite(task, text), sandbox, trial_dir=tmp_path / state)
                for state, text in cases.items()
            }
        finally:
            await provider.close()

    found = asyncio.run(whole())
    assert {state: verdict.ctrf for state, verdict in found.items()} == {state: state for state in cases}
    assert found["disagree"].passed == 50 and not found["disagree"].solved
    assert all(verdict.solved for state, verdict in found.items() if state != "disagree")


@pytest.mark.catalogue("R4")
def test_a_trial_directory_is_never_used_twice(task: Task, tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(backend="process"), tmp_path / "sandboxes")

    async def whole() -> None:
        sandbox = await provider.create("twice", owner="test")
        await grade(task, sandbox, trial_dir=tmp_path / "t0")
        with pytest.raises(VerifierError, match="trial_directory_reused"):
            await grade(task, sandbox, trial_dir=tmp_path / "t0")
        await provider.close()

    asyncio.run(whole())


@pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap here: {bubblewrap_problem()}")
def test_the_warm_run_says_what_the_script_says(task: Task, tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(), tmp_path / "sandboxes")

    class Cold:
        """The same sandbox without the warm server."""

        def __init__(self, inner: Sandbox) -> None:
            self.name = inner.name
            for method in ("exec", "put_directory", "reset_directory", "read_file", "end_processes", "close"):
                setattr(self, method, getattr(inner, method))

    async def whole() -> None:
        sandbox = await provider.create("warm", owner="test")
        assert isinstance(sandbox, RunsPytest)
        await wait_for(provider.warm)
        await place(sandbox, task)
        for number, command in enumerate(["true", *(task.solution / "solve.sh").read_text().splitlines()[2:]]):
            await sandbox.exec(command, timeout_seconds=120)
            warm = await grade(task, sandbox, trial_dir=tmp_path / f"warm-{number}")
            cold = await grade(task, Cold(sandbox), trial_dir=tmp_path / f"cold-{number}")  # type: ignore[arg-type]
            # The second run finds the first one's report, as if planted.
            assert replace(warm, seconds=0, planted=True) == replace(cold, seconds=0)
            outputs = [
                (tmp_path / f"{kind}-{number}" / "verifier" / "reward.txt").read_bytes() for kind in ("warm", "cold")
            ]
            assert outputs[0] == outputs[1]
        (task.tests / "test_outputs.py").write_text(
            "import os, socket\n"
            "def test_privileges():\n"
            "    status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines())\n"
            "    assert int(status['CapEff'], 16) == int(status['CapBnd'], 16) == 0\n"
            "    assert status['NoNewPrivs'] == '1'\n"
            f"    assert os.getuid() {'!=' if os.getuid() == 0 else '=='} 0\n"
            "    assert os.getpid() < 1000 and not os.path.exists('/home')\n"
            "    ours = {name for name in os.environ if not name.startswith('PYTEST_')}\n"
            "    assert ours == {'PATH', 'HOME', 'LANG'}\n"
            "    assert [name for _, name in socket.if_nameindex()] == ['lo']\n"
        )
        privileges = await grade(task, sandbox, trial_dir=tmp_path / "privileges")
        assert privileges.solved, (tmp_path / "privileges" / "verifier" / "test-stdout.txt").read_text()
        (task.tests / "test_outputs.py").write_text("import time\ndef test_slow():\n    time.sleep(600)\n")
        with pytest.raises(VerifierError, match="verifier_timeout"):
            await grade(task, sandbox, trial_dir=tmp_path / "slow", timeout_seconds=1.0)
        assert await sandbox.end_processes() == 0
        await sandbox.close()
        await provider.close()

    asyncio.run(whole())


@pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap here: {bubblewrap_problem()}")
def test_the_warm_run_enters_a_user_namespace_too(task: Task, tmp_path: Path) -> None:
    python, warm = make_verifier_python(tmp_path / "python"), WarmPytest()
    confinement = Confinement(SandboxLimits(), None, python)

    async def whole() -> None:
        sandbox = await create_bubblewrap("warm", confinement, LeaseBook(tmp_path / "sandboxes"), warm)
        try:
            await wait_for(warm)
            await solve(sandbox, task)
            assert (await grade(task, sandbox, trial_dir=tmp_path / "t0")).solved
            (task.tests / "test_outputs.py").write_text(
                "def test_privileges():\n"
                "    status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines())\n"
                "    assert int(status['CapEff'], 16) == int(status['CapBnd'], 16) == 0\n"
            )
            assert (await grade(task, sandbox, trial_dir=tmp_path / "t1")).solved
            assert not warm.failed(ExecResult("", 1, False, 0.1))
        finally:
            await sandbox.close()
            warm.close()

    asyncio.run(whole())


async def wait_for(warm: WarmPytest) -> None:
    deadline = time.monotonic() + 120
    while not warm.ready():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap here: {bubblewrap_problem()}")
@pytest.mark.parametrize("status", ["125", "dead"])
def test_where_the_warm_run_is_forbidden_the_script_is_run(
    status: str, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "import os, socket, sys\n"
        "requests = socket.socket(fileno=int(sys.argv[1]))\n"
        "requests.send(b'ready')\n"
        + ("" if status == "dead" else "_, got, _, _ = socket.recv_fds(requests, 65536, 2)\n")
        + ("" if status == "dead" else "os.write(got[1], b'started 0\\nended 125\\n')\n")
    )
    monkeypatch.setattr(warm_pytest, "_SERVER", server)
    provider = LocalProvider(LocalSandbox(), tmp_path / "sandboxes")

    async def whole() -> None:
        sandbox = await provider.create("cold", owner="test")
        for number in range(4):
            found = await grade(task, sandbox, trial_dir=tmp_path / f"t{number}")
            assert not found.solved and found.total == task.expected_tests
        await provider.close()

    asyncio.run(whole())
    assert ("start cold from now on" in caplog.text) == (status == "125")


def test_a_lost_sandbox_is_never_a_verdict(task: Task, tmp_path: Path) -> None:
    class Lost:
        name = "lost"

        async def end_processes(self) -> int:
            return 0

        async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
            return (task.tests / path.removeprefix("/tests/")).read_bytes() if path.startswith("/tests/") else None

        async def reset_directory(self, path: str) -> None: ...

        async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None: ...

        async def exec(
            self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: object = None
        ) -> ExecResult:
            return ExecResult("nsenter: failed", 1, False, 0.1)

    with pytest.raises(VerifierError, match="reward_missing"):
        asyncio.run(grade(task, Lost(), trial_dir=tmp_path / "t0"))  # type: ignore[arg-type]


def test_a_sandbox_that_goes_at_any_step_of_grading_is_never_a_verdict(task: Task, tmp_path: Path) -> None:
    """Also after reward.txt was read and before the report was: the fallback pays for neither."""

    class Going:
        name = "going"

        def __init__(self, steps: int) -> None:
            self.steps = steps

        def step(self) -> None:
            self.steps -= 1
            if self.steps < 0:
                raise SandboxError("gone")

        async def end_processes(self) -> int:
            self.step()
            return 0

        async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
            self.step()
            logs = {"/logs/verifier/reward.txt": b"1\n", "/logs/verifier/ctrf.json": GOOD_REPORT.encode()}
            return (task.tests / path[7:]).read_bytes() if path.startswith("/tests/") else logs.get(path)

        async def reset_directory(self, path: str) -> None:
            self.step()

        async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
            self.step()

        async def exec(self, command: str, **_: object) -> ExecResult:
            self.step()
            return ExecResult("1 passed", 0, False, 0.1)

    def graded(steps: int) -> tuple[Verdict, int]:
        sandbox = Going(steps)
        verdict = asyncio.run(grade(task, sandbox, trial_dir=tmp_path / f"t{steps}"))  # type: ignore[arg-type]
        return verdict, steps - sandbox.steps

    verdict, needed = graded(1000)
    assert verdict.solved and needed > 10
    for steps in range(needed):
        with pytest.raises(SandboxError):
            graded(steps)
