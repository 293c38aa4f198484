"""One host process at a time with a time limit and captured output, without a thread for either."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from t1cli.terminal.sandbox.process_identity import children_of
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError

OUTPUT_CAP_BYTES = 256 * 1024
"""Kept of one command's output: the first and the last half of this."""

TIMED_OUT = 124
NOT_RUNNABLE = 126
"""A shell's status of a command that is there and cannot be run."""
NO_WORDS = "a NUL or half a character in a command"

_READ_BYTES = 65536
_REAP_SECONDS = 5.0


class Capture:
    """The beginning and the end of a stream, and how much was left out between them."""

    def __init__(self, cap_bytes: int) -> None:
        self._half = cap_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room < len(chunk) else b""
        if len(self._tail) > 2 * self._half:
            self._trim()

    def text(self) -> str:
        """What was kept, decoded with replacement."""
        self._trim()
        middle = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
        return bytes(self._head + middle + self._tail).decode("utf-8", errors="replace")

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._half)
        self._left_out += excess
        del self._tail[:excess]


class OutputPipe:
    """One pipe for all commands of a sandbox: two descriptors, however many background jobs keep writing.

    A background job may outlive its command and go on writing, as in a terminal: its output is dropped between
    commands and shows up in the middle of the next one's. Closing a pipe per command would kill such jobs instead.
    """

    def __init__(self) -> None:
        self.read, self.write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read, False)
        self._closed = False

    def chunks(self, limit_bytes: int = 1 << 20) -> Sequence[bytes]:
        """What can be read now without waiting, up to a limit so that a flood cannot hold up the event loop."""
        found: list[bytes] = []
        taken = 0
        with contextlib.suppress(BlockingIOError):
            while taken < limit_bytes and (chunk := os.read(self.read, _READ_BYTES)):
                found.append(chunk)
                taken += len(chunk)
        return found

    def watch(self, capture: Capture) -> None:
        """Feed the capture from the running loop until `unwatch`."""
        asyncio.get_running_loop().add_reader(self.read, self._drain, capture)

    def unwatch(self, capture: Capture) -> None:
        """Stop feeding, after taking what the ended command had written."""
        asyncio.get_running_loop().remove_reader(self.read)
        self._drain(capture)

    def close(self) -> None:
        """Give both descriptors back."""
        if not self._closed:
            self._closed = True
            os.close(self.read)
            os.close(self.write)

    def _drain(self, capture: Capture) -> None:
        for chunk in self.chunks():
            capture.add(chunk)


def kill_group(pid: int) -> None:
    """End a command that was started as a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def kill_entered_group(pid: int) -> None:
    """End a command that `pid` (nsenter) waits for inside a sandbox, and leave it to `pid` to reap it.

    If `pid` died first, what it started would be reaped by the host's process 1, which in many containers reaps
    nothing; the sandbox could then never be taken down.
    """
    try:
        # It has one child: the command.
        os.killpg(next(iter(children_of(pid)), pid), signal.SIGKILL)
        # nsenter stops itself when its child is stopped; it must go on to see its child's end.
        os.killpg(pid, signal.SIGCONT)
    except ProcessLookupError:
        kill_group(pid)


@dataclass(frozen=True)
class Invocation:
    """What is executed on the host."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    end: Callable[[int], None] = kill_group
    """How the command is killed, given the host pid that was started."""


async def run_command(invocation: Invocation, pipe: OutputPipe, *, timeout_seconds: float) -> ExecResult:
    """Run until exit or time limit; on the limit, or when cancelled, its whole process group is killed."""
    pipe.chunks()
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            invocation.argv,
            stdin=subprocess.DEVNULL,
            stdout=pipe.write,
            stderr=pipe.write,
            env=dict(invocation.env),
            cwd=invocation.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return _never_began(invocation, error)
    capture = Capture(OUTPUT_CAP_BYTES)
    pipe.watch(capture)
    try:
        exited = await ended(process.pid, timeout_seconds)
    finally:
        # On every way out, cancellation included: a process that is still there goes with its whole group.
        status = _reap(process, invocation.end)
        pipe.unwatch(capture)
    seconds = time.monotonic() - began
    return ExecResult(capture.text(), status if exited else TIMED_OUT, not exited, seconds)


async def ended(pid: int, timeout_seconds: float) -> bool:
    """Wait for a child to exit, without reaping it; False when the time limit came first."""
    loop = asyncio.get_running_loop()
    pidfd = os.pidfd_open(pid)
    exited: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        loop.remove_reader(pidfd)
        if not exited.done():
            exited.set_result(None)

    loop.add_reader(pidfd, readable)
    try:
        async with asyncio.timeout(timeout_seconds):
            await exited
        return True
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def not_runnable(reason: str) -> ExecResult:
    """The result of a command that could not begin, for a reason of its own."""
    return ExecResult(f"cannot be run: {reason}\n", NOT_RUNNABLE, False, 0.0)


def _never_began(invocation: Invocation, error: OSError | ValueError) -> ExecResult:
    """What a shell says of words that no program can be given. Raises SandboxError for all other reasons."""
    too_long = isinstance(error, OSError) and error.errno == errno.E2BIG
    if isinstance(error, OSError) and not too_long:
        raise SandboxError(f"cannot start {invocation.argv[0]}: {error}") from error
    return not_runnable("argument list too long" if too_long else NO_WORDS)


def _reap(process: subprocess.Popen[bytes], end: Callable[[int], None]) -> int:
    status = process.poll()
    if status is None:
        # Not reaped yet, so its number is still ours.
        end(process.pid)
        try:
            status = process.wait(timeout=_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            status = process.wait()
    return 128 - status if status < 0 else status
