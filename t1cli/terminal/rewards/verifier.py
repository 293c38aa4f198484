"""Grading one stopped trial by running the task's own tests inside its sandbox.

The order is what makes a verdict trustworthy: the agent's processes are ended, `/logs/verifier` and `/tests` are
emptied, the tests are put in place, and their bytes are compared before and after the run.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from pathlib import Path
from typing import Protocol, runtime_checkable

from t1cli.terminal.rewards.ctrf import MAX_BYTES, CtrfReport, read_ctrf
from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.printed import after_colon
from t1cli.terminal.rewards.trial_directory import VerifierOutput
from t1cli.terminal.rewards.verdict import CtrfState, Verdict
from t1cli.terminal.sandbox.sandbox import ExecResult, Sandbox, SandboxError
from t1cli.terminal.sandbox.warm_pytest import RunsPytest
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.tasks.verify_script import warm_job

_LOGS = "/logs/verifier"
_MAX_TEST_BYTES = 16 * 1024 * 1024
# An agent may have removed or locked the working directory: that is for the tests to find out.
_RUN = 'cd "${{T1_ROOT:-}}/work" 2>/dev/null; exec {shell} "${{T1_ROOT:-}}/tests/test.sh"'


@runtime_checkable
class GradesItself(Protocol):
    """A sandbox of a server that has the tests and runs them by itself."""

    async def evaluate(self, *, expected_tests: int | None, timeout_seconds: float) -> Verdict:
        """The server's verdict. Raises VerifierError and SandboxError."""
        ...


async def grade(task: Task, sandbox: Sandbox, *, trial_dir: Path, timeout_seconds: float | None = None) -> Verdict:
    """Run the task's tests and read what they wrote; keeps the output in `trial_dir/verifier` (catalogue R11).

    Raises VerifierError when the verifier itself failed and SandboxError when the sandbox is gone: either way nothing
    is known about the trial, and it must not be scored 0. `timeout_seconds` replaces what the task declares.
    """
    output = VerifierOutput.create(trial_dir)
    if isinstance(sandbox, GradesItself):
        seconds = task.verifier_timeout_seconds if timeout_seconds is None else timeout_seconds
        return await sandbox.evaluate(expected_tests=task.expected_tests, timeout_seconds=seconds)
    ended = await sandbox.end_processes()
    planted = await _exists(sandbox, f"{_LOGS}/ctrf.json")
    await sandbox.reset_directory(_LOGS)
    await sandbox.put_directory(task.tests, "/tests", read_only=True)
    wanted = _host_digest(task.tests)
    await _check_tests(sandbox, task.tests, wanted, "before")
    began = time.time()
    limit_seconds = task.verifier_timeout_seconds if timeout_seconds is None else timeout_seconds
    result = await _run_tests(task, sandbox, limit_seconds)
    output.keep("test-stdout.txt", result.output.encode())
    if result.timed_out:
        raise VerifierError("verifier_timeout", f"no result after {limit_seconds:g} s")
    await _check_tests(sandbox, task.tests, wanted, "after")
    solved = await _solved(sandbox, output, result)
    report = await _report(sandbox, output, began)
    return Verdict(
        solved=solved,
        ctrf=_state(report, solved),
        passed=report.passed if report.state == "ok" else 0,
        total=report.total if report.state == "ok" else 0,
        expected=task.expected_tests,
        seconds=result.seconds,
        planted=planted,
        processes_ended=ended,
    )


async def _run_tests(task: Task, sandbox: Sandbox, limit_seconds: float) -> ExecResult:
    job = warm_job(task.tests) if isinstance(sandbox, RunsPytest) else None
    if job is not None and isinstance(sandbox, RunsPytest):
        result = await sandbox.run_pytest(job, timeout_seconds=limit_seconds)
        if result is not None:
            return result
    return await sandbox.exec(_RUN.format(shell=_shell(task)), timeout_seconds=limit_seconds, cwd="/")


def _shell(task: Task) -> str:
    try:
        with (task.tests / "test.sh").open("rb") as file:
            first = file.readline(200)
    except OSError as error:
        raise VerifierError("test_script_missing", str(error)) from error
    return "bash" if b"bash" in first else "sh"


async def _exists(sandbox: Sandbox, path: str) -> bool:
    try:
        return await sandbox.read_file(path, max_bytes=MAX_BYTES) is not None
    except SandboxError:
        # Too large to read, or locked: something is there.
        return True


async def _check_tests(sandbox: Sandbox, tests: Path, wanted: str, when: str) -> None:
    digest = hashlib.sha256()
    for name in _test_files(tests):
        content = await sandbox.read_file(f"/tests/{name}", max_bytes=_MAX_TEST_BYTES)
        _feed(digest, name, content if content is not None else b"(missing)")
    if digest.hexdigest() != wanted:
        raise VerifierError("tests_tampered", f"the bytes under /tests were not the task's {when} the run")


def _host_digest(tests: Path) -> str:
    digest = hashlib.sha256()
    for name in _test_files(tests):
        _feed(digest, name, (tests / name).read_bytes())
    return digest.hexdigest()


def _test_files(tests: Path) -> list[str]:
    files = (path for path in tests.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(tests).as_posix() for path in files)


def _feed(digest: hashlib._Hash, name: str, content: bytes) -> None:
    digest.update(f"{name}\0{len(content)}\0".encode())
    digest.update(content)


async def _solved(sandbox: Sandbox, output: VerifierOutput, result: ExecResult) -> bool:
    """The verifier's own answer: reward.json wins over reward.txt (Harbor's contract); solved means 1 or more."""
    try:
        as_json = await sandbox.read_file(f"{_LOGS}/reward.json", max_bytes=65536)
        as_text = await sandbox.read_file(f"{_LOGS}/reward.txt", max_bytes=4096)
    except SandboxError as error:
        await _require_alive(sandbox)
        raise VerifierError("reward_unreadable", str(error)) from error
    output.keep("reward.json", as_json)
    output.keep("reward.txt", as_text)
    if as_json is None and as_text is None:
        said = after_colon(result.output)
        raise VerifierError("reward_missing", f"test.sh ended with status {result.exit_code}:{said}")
    try:
        rewards = _rewards(json.loads(as_json)) if as_json is not None else [float((as_text or b"").decode())]
    except (ValueError, OverflowError, RecursionError) as error:
        raise VerifierError("reward_unreadable", str(error)) from error
    if not rewards or not all(math.isfinite(reward) for reward in rewards):
        raise VerifierError("reward_unreadable", "expected finite numbers")
    return min(rewards) >= 1.0


def _rewards(found: object) -> list[float]:
    if not isinstance(found, dict):
        raise ValueError("reward.json is no object")
    values = [found["reward"]] if "reward" in found else list(found.values())
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        raise ValueError("reward.json holds something that is no number")
    return [float(value) for value in values]


async def _report(sandbox: Sandbox, output: VerifierOutput, began: float) -> CtrfReport:
    try:
        content = await sandbox.read_file(f"{_LOGS}/ctrf.json", max_bytes=MAX_BYTES)
    except SandboxError as error:
        await _require_alive(sandbox)
        return CtrfReport("corrupt", problem=str(error))
    output.keep("ctrf.json", content)
    return read_ctrf(content, not_before_seconds=began)


async def _require_alive(sandbox: Sandbox) -> None:
    """Raises SandboxError when the sandbox is gone: then nothing is known, and no fallback may pay.

    Tells that from a file that is too large or locked, which is the fault of whoever wrote it.
    """
    await sandbox.read_file(f"{_LOGS}/no-such-file", max_bytes=1)


def _state(report: CtrfReport, solved: bool) -> CtrfState:
    # Weighted scoring in a test.sh may say success beside failed tests, or the reverse; both numbers are kept.
    if report.state == "ok" and (report.passed == report.total) != solved:
        return "disagree"
    return report.state
