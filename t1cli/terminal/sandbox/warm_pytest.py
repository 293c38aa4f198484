"""Running pytest in a sandbox from a process that has it imported already: a quarter of a cold start's CPU time."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from t1cli.terminal.sandbox.command import OUTPUT_CAP_BYTES, TIMED_OUT, Capture, OutputPipe
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError

_LOG = logging.getLogger(__name__)

BROKEN = 125
"""Status of a run that failed before pytest, as the server says it."""

_SERVER = Path(__file__).with_name("warm_pytest_server.py")


@runtime_checkable
class RunsPytest(Protocol):
    """A sandbox that can run pytest without starting an interpreter for it."""

    async def run_pytest(self, job: PytestJob, *, timeout_seconds: float) -> ExecResult | None:
        """What `test.sh` of the generated tasks does; None when this sandbox cannot, and test.sh has to be run."""
        ...


@dataclass(frozen=True)
class PytestJob:
    """One run: pytest's arguments, and the file that gets 1 or 0 when pytest ended with status 0 or 1."""

    arguments: tuple[str, ...]
    cwd: str
    reward: str


@dataclass(frozen=True)
class Entrance:
    """Which sandbox to enter, and as what."""

    init_pid: int
    init_start: str
    """Start time in clock ticks, as /proc says."""
    user: int | None
    user_namespace: bool
    limits: Mapping[str, int]
    env: Mapping[str, str]
    site_packages: str
    """Where the packages are inside."""


class WarmPytest:
    """The server process of one provider, started at the first use and ended by `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready = False
        self._failed = False

    def ready(self) -> bool:
        """Whether the server can take a job now; the first call starts it. It stays False where pytest is missing."""
        with self._lock:
            if self._failed:
                return False
            if self._process is None:
                packages = site_packages()
                self._failed = packages is None or not self._launch(packages)
            elif not self._ready and self._socket is not None:
                with contextlib.suppress(OSError):
                    self._ready = self._socket.recv(64, socket.MSG_DONTWAIT) == b"ready"
            return self._ready and self._process is not None and self._process.poll() is None

    async def run(self, job: PytestJob, entrance: Entrance, pipe: OutputPipe, *, timeout_seconds: float) -> ExecResult:
        """Run one job; at the time limit, or when cancelled, its process group is killed. Raises SandboxError."""
        pipe.chunks()
        began = time.monotonic()
        report = _Report()
        try:
            self._send(job, entrance, pipe, report)
            capture = Capture(OUTPUT_CAP_BYTES)
            pipe.watch(capture)
            try:
                status = await report.ended(timeout_seconds)
            finally:
                report.kill()
                pipe.unwatch(capture)
        finally:
            report.close()
        seconds = time.monotonic() - began
        if status is None:
            return ExecResult(capture.text(), TIMED_OUT, True, seconds)
        return ExecResult(capture.text(), status, False, seconds)

    def failed(self, result: ExecResult) -> bool:
        """Whether a run never reached pytest; the server is then not used again."""
        if not result.timed_out and result.exit_code == BROKEN:
            self._failed = True
            _LOG.warning("verifiers start cold from now on: %s", result.output.strip()[-300:])
        return self._failed

    def close(self) -> None:
        """End the server. Safe to call twice."""
        with self._lock:
            self._ready = False
            if self._socket is not None:
                self._socket.close()
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            self._process = self._socket = None

    def _send(self, job: PytestJob, entrance: Entrance, pipe: OutputPipe, report: _Report) -> None:
        if self._socket is None:
            raise SandboxError("the verifier's server is not running")
        message = json.dumps(asdict(entrance) | asdict(job)).encode()
        try:
            socket.send_fds(self._socket, [message], [pipe.write, report.write])
        except OSError as error:
            raise SandboxError(f"the verifier's server is gone: {error}") from error
        report.sent()

    def _launch(self, packages: str) -> bool:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        interpreter = os.path.realpath(sys.executable)
        try:
            self._process = subprocess.Popen(
                [interpreter, "-I", "-S", "-B", str(_SERVER), str(theirs.fileno()), packages],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # No environment, so that no secret of the owner is in a process that enters sandboxes.
                env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LANG": "C.UTF-8"},
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            _LOG.warning("verifiers start cold: %s", error)
            ours.close()
            return False
        finally:
            theirs.close()
        self._socket = ours
        return True


class _Report:
    """The pipe on which a fork says that it started and how it ended."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read, False)
        self._text = ""
        self._finished = False

    def sent(self) -> None:
        """The fork has its own copy of the write end: without ours, its death closes the pipe."""
        os.close(self.write)
        self.write = -1

    async def ended(self, timeout_seconds: float) -> int | None:
        """The exit status, or None at the time limit. Raises SandboxError when the fork died without a word."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._read, self._take, done)
        try:
            async with asyncio.timeout(timeout_seconds):
                await done
        except TimeoutError:
            return None
        finally:
            loop.remove_reader(self._read)
        for line in self._text.splitlines():
            if line.startswith("ended "):
                return int(line.split()[1])
        raise SandboxError("the verifier's process died without a result")

    def kill(self) -> None:
        """Kill the fork's process group unless it has ended."""
        with contextlib.suppress(BlockingIOError):
            self._finished = self._finished or not (chunk := os.read(self._read, 4096))
            self._text += chunk.decode("ascii", errors="replace") if not self._finished else ""
        if self._finished or not self._text.startswith("started "):
            return
        pid = int(self._text.split()[1])
        with contextlib.suppress(ProcessLookupError):
            if pid > 1:
                os.killpg(pid, signal.SIGKILL)

    def close(self) -> None:
        for descriptor in (self._read, self.write):
            if descriptor >= 0:
                os.close(descriptor)

    def _take(self, done: asyncio.Future[None]) -> None:
        chunk = os.read(self._read, 4096)
        self._text += chunk.decode("ascii", errors="replace")
        if (not chunk or "ended " in self._text) and not done.done():
            self._finished = True
            done.set_result(None)


def site_packages() -> str | None:
    """The directory that pytest and its CTRF plugin are installed in; None when one is missing."""
    if importlib.util.find_spec("ctrf") is None:
        return None
    spec = importlib.util.find_spec("pytest")
    return str(Path(spec.origin).parent.parent) if spec is not None and spec.origin is not None else None
