"""Sandboxes on this machine: bubblewrap where it works, else plain processes with a loud warning."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import shutil
import tempfile
import threading
from functools import lru_cache
from pathlib import Path

from t1cli.errors import CouldNotAsk
from t1cli.spec.sandbox import LocalSandbox, SandboxLimits
from t1cli.terminal.sandbox.confinement import TOOLS, Confinement, tool
from t1cli.terminal.sandbox.interpreter import VerifierPython, make_verifier_python
from t1cli.terminal.sandbox.leases import Lease, LeaseBook, full_owner
from t1cli.terminal.sandbox.limiter import CreationPace, LoopLimiter
from t1cli.terminal.sandbox.local_bubblewrap import BubblewrapSandbox, create_bubblewrap
from t1cli.terminal.sandbox.local_process import WARNING, ProcessSandbox, create_process_sandbox
from t1cli.terminal.sandbox.sandbox import ExecResult, Sandbox, SandboxError
from t1cli.terminal.sandbox.sweep import sweep_directory
from t1cli.terminal.sandbox.warm_pytest import PytestJob, WarmPytest

_LOG = logging.getLogger(__name__)

_FIRST_USER = 1_000_000_000
_USERS_PER_PROCESS = 4096
_slots = itertools.count()


class LocalProvider:
    """Makes local sandboxes in one directory (`<run>/sandboxes`); works from any event loop.

    Raises CouldNotAsk when `backend: bubblewrap` is asked for and does not work here.
    """

    def __init__(self, spec: LocalSandbox, directory: Path) -> None:
        self.spec = spec
        self.directory = directory.resolve()
        self.backend, self.warning = choose_backend(spec.backend)
        self.leases = LeaseBook(self.directory)
        self._places = LoopLimiter(spec.capacity)
        self._python: VerifierPython | None = None
        self._live: dict[str, _Placed] = {}
        self._pace = CreationPace(spec.creation_per_second)
        self.warm = WarmPytest()
        if self.backend == "bubblewrap":
            self._python = make_verifier_python(self.directory / "python")
        if self.warning:
            _LOG.warning("%s", self.warning)

    async def create(self, name: str, *, owner: str) -> Sandbox:
        """A ready sandbox with an empty `/work`; waits while `capacity` are live. Raises SandboxError.

        `owner` is a run id or a full owner (`run/pid/start`); the calling process completes a bare run id.
        """
        await self._places.acquire()
        try:
            await self._pace.wait()
            inner = await self._create(name, full_owner(owner))
        except BaseException:
            self._places.release()
            raise
        placed = _Placed(inner, self)
        self._live[name] = placed
        return placed

    async def sweep(self, owner: str) -> tuple[str, ...]:
        """Destroy what a dead owner (or the dead processes of a run id) left behind; returns the names."""
        return sweep_directory(self.directory, owner)

    async def close(self) -> None:
        """Destroy all sandboxes of this provider that are still live."""
        for placed in list(self._live.values()):
            await placed.close()
        self.warm.close()

    def forget(self, name: str) -> None:
        """A sandbox of this provider has been closed: its place is free again."""
        if self._live.pop(name, None) is not None:
            self._places.release()

    async def _create(self, name: str, owner: str) -> BubblewrapSandbox | ProcessSandbox:
        if name in self._live:
            raise SandboxError(f"a sandbox named {name} is live already")
        # On record with its marker first: killed in the middle of a creation, the marker still finds its processes.
        marker = secrets.token_hex(16)
        self.leases.ask(Lease(name, owner, marker))
        if self.backend == "bubblewrap":
            confinement = new_confinement(self.spec.limits, self._python)
            return await create_bubblewrap(name, confinement, self.leases, self.warm, marker=marker)
        return create_process_sandbox(name, self.directory, marker, limits=self.spec.limits, leases=self.leases)


def local_provider(spec: LocalSandbox, directory: Path) -> LocalProvider:
    """A provider of local sandboxes in `directory`. Raises CouldNotAsk when the wanted backend does not work here."""
    return LocalProvider(spec, directory)


class _Placed:
    """A sandbox that gives its place back when it is closed."""

    def __init__(self, inner: BubblewrapSandbox | ProcessSandbox, provider: LocalProvider) -> None:
        self.name = inner.name
        self._inner = inner
        self._provider = provider

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        return await self._inner.exec(command, timeout_seconds=timeout_seconds, cwd=cwd, env=env)

    async def run_pytest(self, job: PytestJob, *, timeout_seconds: float) -> ExecResult | None:
        if isinstance(self._inner, BubblewrapSandbox):
            return await self._inner.run_pytest(job, timeout_seconds=timeout_seconds)
        return None

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        await self._inner.put_directory(source, target, read_only=read_only)

    async def reset_directory(self, path: str) -> None:
        await self._inner.reset_directory(path)

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        return await self._inner.read_file(path, max_bytes=max_bytes)

    async def end_processes(self) -> int:
        return await self._inner.end_processes()

    async def close(self) -> None:
        try:
            await self._inner.close()
        finally:
            self._provider.forget(self.name)


def choose_backend(wanted: str) -> tuple[str, str]:
    """The backend to use, `bubblewrap` or `process`, and a warning (empty for none). Raises CouldNotAsk."""
    if wanted == "process":
        return "process", WARNING
    problem = bubblewrap_problem()
    if not problem:
        return "bubblewrap", ""
    if wanted == "bubblewrap":
        raise CouldNotAsk(
            f"bubblewrap sandboxes do not work here: {problem}",
            where="sandbox.backend",
            hint="install bubblewrap and util-linux, or set sandbox.backend=process for trusted tasks",
        )
    return "process", f"{WARNING} ({problem})"


@lru_cache(maxsize=1)
def bubblewrap_problem() -> str:
    """Why bubblewrap sandboxes do not work on this machine, found by making one; empty when they do."""
    missing = [name for name in TOOLS if shutil.which(tool(name)) is None]
    if missing:
        return f"missing programs: {', '.join(missing)}"
    found: list[str] = []
    # A thread of its own, because the caller may be inside a running event loop.
    thread = threading.Thread(target=lambda: found.append(asyncio.run(_probe())))
    thread.start()
    thread.join()
    return found[0] if found else "the probe ended with an error"


async def _probe() -> str:
    with tempfile.TemporaryDirectory() as scratch:
        leases = LeaseBook(Path(scratch))
        try:
            sandbox = await create_bubblewrap("probe", new_confinement(SandboxLimits(), None), leases)
        except SandboxError as error:
            return str(error)
        try:
            result = await sandbox.exec("echo inside > here && cat here", timeout_seconds=20.0)
            return "" if result.output == "inside\n" else f"a command inside failed: {result.output.strip()}"
        except SandboxError as error:
            return str(error)
        finally:
            await sandbox.close()


def new_confinement(limits: SandboxLimits, python: VerifierPython | None) -> Confinement:
    """How the next sandbox of this process is confined."""
    if os.getuid() != 0:
        return Confinement(limits, None, python)
    # A user id that no account has and no other live sandbox of this machine uses: the kernel counts processes by it.
    slot = next(_slots) % _USERS_PER_PROCESS
    return Confinement(limits, _FIRST_USER + os.getpid() % 32768 * _USERS_PER_PROCESS + slot, python)
