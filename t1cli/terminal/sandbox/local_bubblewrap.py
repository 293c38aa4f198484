"""A private machine by bubblewrap: own root, processes and network; one per trial, held until closed.

Nothing of it lies on the host's disk: its files are a tmpfs in its own mount namespace, which ends with process 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from t1cli.spec.sandbox import SandboxLimits
from t1cli.terminal.sandbox.command import Capture, Invocation, OutputPipe, ended, kill_entered_group, run_command
from t1cli.terminal.sandbox.confinement import PATH_INSIDE, READY, Confinement, allowed_limits
from t1cli.terminal.sandbox.inside import Tree
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.local_process import MARKER
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, children_of, identify, state_of
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError
from t1cli.terminal.sandbox.warm_pytest import Entrance, PytestJob, WarmPytest

_START_SECONDS = 20.0
_END_SECONDS = 10.0
_STOP_SECONDS = 1.0
_VERIFIER_MIB = 512

# Only ever inside: a wrong process id must not turn this into a kill of the whole host.
_END_ALL = """
[ "$(readlink /proc/self/ns/pid)" = "pid:[$1]" ] || exit 9
count=0
for entry in /proc/[0-9]*; do
  pid=${entry#/proc/}
  [ "$pid" = 1 ] || [ "$pid" = $$ ] || count=$((count + 1))
done
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  kill -9 -1 2>/dev/null
  set -- /proc/[0-9]*
  [ $# -le 2 ] && echo "$count" && exit 0
  sleep "0.0$attempt"
done
exit 8
"""


class BubblewrapSandbox:
    """One live bubblewrap sandbox; use it from the event loop that created it.

    Its processes end with the thread that created it (the kernel's parent-death signal belongs to that thread).
    """

    def __init__(
        self, name: str, confinement: Confinement, holder: _Holder, leases: LeaseBook, warm: WarmPytest | None = None
    ) -> None:
        self.name = name
        self._warm = warm
        self._confinement = confinement
        self._holder = holder
        self._leases = leases
        self._lock, self._closing = asyncio.Lock(), asyncio.Lock()
        self._tree = Tree(holder.root, confinement.user)
        self._closed = False

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command. Raises SandboxError when the sandbox is gone."""
        python = self._confinement.python
        settings = {"PATH": PATH_INSIDE, "HOME": "/work", "LANG": "C.UTF-8", "TERM": "dumb"}
        if python is not None:
            settings["T1_PYTHON"] = python.executable
        async with self._lock:
            self._check()
            argv = self._confinement.command(self._holder.init.pid, command, cwd)
            invocation = Invocation(argv, settings | (env or {}), end=kill_entered_group)
            result = await run_command(invocation, self._holder.pipe, timeout_seconds=timeout_seconds)
            self._check()
        return result

    async def run_as_root(
        self, command: str, *, timeout_seconds: float, cwd: str = "/", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command as root of the sandbox, outside the agent's limits. Raises SandboxError.

        For commands of ours and of an agent framework, never for an agent's own.
        """
        pipe = OutputPipe()
        try:
            self._check()
            argv = self._confinement.root_command(self._holder.init.pid, command, cwd)
            invocation = Invocation(argv, {"PATH": PATH_INSIDE, "HOME": "/root"} | (env or {}), end=kill_entered_group)
            result = await run_command(invocation, pipe, timeout_seconds=timeout_seconds)
            self._check()
        finally:
            pipe.close()
        return result

    async def run_pytest(self, job: PytestJob, *, timeout_seconds: float) -> ExecResult | None:
        """Run pytest from the provider's warm server; None when that is not there (yet). Raises SandboxError."""
        python = self._confinement.python
        if self._warm is None or python is None or not self._warm.ready():
            return None
        async with self._lock:
            self._check()
            entrance = Entrance(
                init_pid=self._holder.init.pid,
                init_start=self._holder.init.start.partition("@")[0],
                user=self._confinement.user,
                user_namespace=self._confinement.user is None,
                limits=allowed_limits(_for_verifier(self._confinement.limits)),
                env={"PATH": PATH_INSIDE, "HOME": "/work", "LANG": "C.UTF-8", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                site_packages=python.site_packages,
            )
            try:
                result = await self._warm.run(job, entrance, self._holder.pipe, timeout_seconds=timeout_seconds)
            except SandboxError:
                # Either the sandbox went, or only the server: then nothing is lost by starting cold.
                self._check()
                return None
            self._check()
        # The sandbox lives and yet could not be entered: this machine forbids it, so test.sh is run from now on.
        return None if self._warm.failed(result) else result

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Place a host directory's files at an absolute path inside; a read-only target is emptied first."""
        self._check()
        self._tree.put_directory(source, target, read_only=read_only)

    async def reset_directory(self, path: str) -> None:
        """Make an absolute path inside an empty directory that commands can write to, whatever was there."""
        self._check()
        self._tree.reset_directory(path)

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file inside; None when absent. Raises SandboxError above `max_bytes`."""
        self._check()
        return self._tree.read_file(path, max_bytes=max_bytes)

    async def end_processes(self) -> int:
        """End every process but the sandbox's own; returns how many there were. Raises SandboxError."""
        async with self._lock:
            self._check()
            if self._holder.is_alone():
                return 0
            argv = self._confinement.trusted(self._holder.init.pid, _END_ALL, str(self._holder.pid_namespace))
            pipe = OutputPipe()
            try:
                invocation = Invocation(argv, {"PATH": PATH_INSIDE}, end=kill_entered_group)
                result = await run_command(invocation, pipe, timeout_seconds=_END_SECONDS)
            finally:
                pipe.close()
        if result.exit_code != 0 or not result.output.strip().isdigit():
            raise SandboxError(f"cannot end the processes in {self.name}: {result.output.strip()[-200:]}")
        return int(result.output)

    async def close(self) -> None:
        """Destroy it; nothing of it is left when this returns. Safe to call twice, also while the first call runs."""
        async with self._closing:
            if self._closed:
                return
            self._closed = True
            try:
                await self._holder.destroy()
            finally:
                self._leases.closed(self.name)

    def _check(self) -> None:
        if self._closed or self._holder.process.poll() is not None or not self._holder.init.alive:
            raise SandboxError(f"sandbox {self.name} is gone")


def _for_verifier(limits: SandboxLimits) -> SandboxLimits:
    # What an agent may use can be less than what an interpreter with pytest needs.
    return limits.model_copy(update={"memory_mib": max(limits.memory_mib, _VERIFIER_MIB)})


class _Holder:
    """bubblewrap's monitor on the host, process 1 inside, and the descriptors that lead to them."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: OutputPipe, lifeline: int) -> None:
        self.process = process
        self.pipe = pipe
        self.lifeline = lifeline
        """Process 1 ends when nobody has this open any more."""
        self.init = ProcessIdentity(0, "")
        self.pid_namespace = 0
        self.root = -1

    def attach(self, info: dict[str, int]) -> None:
        """Take hold of process 1 and of its root, which is in place by now."""
        init = identify(int(info["child-pid"]))
        if init is None:
            raise SandboxError("process 1 of the sandbox ended at once")
        self.init = init
        self.pid_namespace = int(info["pid-namespace"])
        self.root = os.open(f"/proc/{init.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def is_alone(self) -> bool:
        """Whether process 1 is the only one inside, as the sandbox's own /proc says, read from out here."""
        try:
            proc = os.open("proc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.root)
        except OSError:
            return False
        try:
            if os.readlink("1/ns/pid", dir_fd=proc) != f"pid:[{self.pid_namespace}]":
                return False
            # Twice: a process that forks and exits without end has ever higher numbers, and is seen, unless they begin
            # anew while one list is read; they cannot do so again within the next.
            return all([name for name in os.listdir(proc) if name.isdigit()] == ["1"] for _ in range(2))
        except OSError:
            return False
        finally:
            os.close(proc)

    def kill_unborn(self) -> None:
        """Kill the monitor and whatever it has started, while nothing is known of process 1 yet.

        The monitor is stopped first: killed alone in the midst of it, it would leave a process 1 that waits for ever.
        """
        pid = self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + _STOP_SECONDS
        while state_of(pid) not in ("T", "Z", "") and time.monotonic() < deadline:
            time.sleep(0.001)
        for started in children_of(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(started, signal.SIGKILL)
        self.process.kill()

    async def destroy(self) -> None:
        """Kill process 1 and with it everything inside, then the monitor; give the descriptors back."""
        self._kill_init()
        try:
            if self.process.poll() is None and not await ended(self.process.pid, _END_SECONDS):
                self.process.kill()
        finally:
            # Also on cancellation: process 1 has its SIGKILL already, its monitor follows at once.
            self._wait_and_release()

    def _kill_init(self) -> None:
        if self.init.pid and self.init.alive:
            with contextlib.suppress(ProcessLookupError, OSError):
                pidfd = os.pidfd_open(self.init.pid)
                try:
                    if self.init.alive:
                        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                finally:
                    os.close(pidfd)

    def _wait_and_release(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_END_SECONDS)
        self.pipe.close()
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1
        if self.root >= 0:
            os.close(self.root)
            self.root = -1


async def create_bubblewrap(
    name: str, confinement: Confinement, leases: LeaseBook, warm: WarmPytest | None = None, *, marker: str = ""
) -> BubblewrapSandbox:
    """A ready sandbox, whose name, owner and marker `leases` already has. Raises SandboxError."""
    holder, info = _start(confinement, marker)
    try:
        with os.fdopen(info, "rb") as stream:
            await _ready(holder)
            holder.attach(_parse(stream.read(65536)))
        monitor = identify(holder.process.pid)
        leases.started(name, tuple(process for process in (monitor, holder.init) if process is not None))
        if confinement.user is not None:
            os.chown("work", confinement.user, confinement.user, dir_fd=holder.root, follow_symlinks=False)
    except BaseException as error:
        holder.kill_unborn()
        await holder.destroy()
        leases.closed(name)
        if isinstance(error, (OSError, ValueError, KeyError)):
            raise SandboxError(f"cannot create sandbox {name}: {error}") from error
        raise
    return BubblewrapSandbox(name, confinement, holder, leases, warm)


def _start(confinement: Confinement, marker: str) -> tuple[_Holder, int]:
    pipe = OutputPipe()
    info_read, info_write = os.pipe2(os.O_CLOEXEC)
    waits, lifeline = os.pipe2(os.O_CLOEXEC)
    passwd, group = (_memory_file(content) for content in confinement.identities())
    passed = (info_write, passwd, group)
    try:
        process = subprocess.Popen(
            confinement.holder(info_fd=info_write, passwd_fd=passwd, group_fd=group),
            stdin=waits,
            stdout=pipe.write,
            stderr=pipe.write,
            env={"PATH": PATH_INSIDE, MARKER: marker},
            cwd="/",
            pass_fds=passed,
            start_new_session=True,
        )
    except OSError as error:
        os.close(info_read)
        os.close(lifeline)
        pipe.close()
        raise SandboxError(f"cannot start bubblewrap: {error}") from error
    finally:
        for descriptor in (*passed, waits):
            os.close(descriptor)
    return _Holder(process, pipe, lifeline), info_read


async def _ready(holder: _Holder) -> None:
    """Wait for the sandbox's own first output: bubblewrap reports the child before its root is in place."""
    loop = asyncio.get_running_loop()
    capture = Capture(65536)
    deadline = time.monotonic() + _START_SECONDS
    woken = asyncio.Event()
    try:
        loop.add_reader(holder.pipe.read, woken.set)
        while READY.decode() not in capture.text():
            left = deadline - time.monotonic()
            if holder.process.poll() is not None or left <= 0:
                raise SandboxError(f"bubblewrap did not start: {capture.text().strip()[-500:] or 'no message'}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, 0.2)):
                    await woken.wait()
            woken.clear()
            for chunk in holder.pipe.chunks():
                capture.add(chunk)
    finally:
        loop.remove_reader(holder.pipe.read)


def _parse(info: bytes) -> dict[str, int]:
    found = json.loads(info)
    if not isinstance(found, dict):
        raise ValueError("bubblewrap's information is no object")
    return found


def _memory_file(content: str) -> int:
    descriptor = os.memfd_create("t1", os.MFD_CLOEXEC)
    os.write(descriptor, content.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
