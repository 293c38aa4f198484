"""A plain process sandbox: a directory and process groups. It isolates NOTHING and needs trusted tasks.

`/work`, `/tmp`, `/tests` and `/logs` are directories under one host directory; T1_ROOT names it in every command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path

from t1cli.spec.sandbox import SandboxLimits
from t1cli.terminal.sandbox.command import Invocation, OutputPipe, run_command
from t1cli.terminal.sandbox.confinement import PATH_INSIDE, limit_arguments, shell, tool
from t1cli.terminal.sandbox.inside import Tree
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, identify, kill
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError

WARNING = (
    "sandboxes are plain processes: commands of the model run as you, with your files and your network. "
    "Use trusted tasks only, or install bubblewrap"
)

MARKER = "T1_SANDBOX_MARKER"
"""Environment variable by which this sandbox's processes are found again."""


class ProcessSandbox:
    """One directory and the processes that carry its marker."""

    def __init__(self, name: str, root: Path, marker: str, *, limits: SandboxLimits, leases: LeaseBook) -> None:
        self.name = name
        self._root = root
        self._marker = marker
        self._limits = limits
        self._leases = leases
        self._pipe = OutputPipe()
        self._lock = asyncio.Lock()
        self._tree = Tree(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), None)
        self._closed = False

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command. Raises SandboxError when the sandbox is gone."""
        settings = {
            "PATH": PATH_INSIDE,
            "HOME": str(self._root / "work"),
            "TMPDIR": str(self._root / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "T1_ROOT": str(self._root),
            "T1_PYTHON": sys.executable,
            MARKER: self._marker,
        }
        argv = (shell(), "-c", 'cd -- "$1" && eval "$2"', "sh", f"{self._root}{cwd}", command)
        async with self._lock:
            self._check()
            invocation = Invocation(
                (tool("prlimit"), *limit_arguments(self._limits, processes=False), *argv), settings | (env or {})
            )
            return await run_command(invocation, self._pipe, timeout_seconds=timeout_seconds)

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
        """End every process that carries the marker; returns how many there were."""
        self._check()
        return end_marked(self._marker)

    async def close(self) -> None:
        """End its processes and remove its directory. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        end_marked(self._marker)
        self._pipe.close()
        os.close(self._tree.root)
        remove_tree(self._root)
        self._leases.closed(self.name)

    def _check(self) -> None:
        if self._closed or not self._root.is_dir():
            raise SandboxError(f"sandbox {self.name} is gone")


def create_process_sandbox(
    name: str, directory: Path, marker: str, *, limits: SandboxLimits, leases: LeaseBook
) -> ProcessSandbox:
    """A ready sandbox in `directory/name`, whose name and owner `leases` already has. Raises SandboxError."""
    root = directory / name
    try:
        root.mkdir(parents=True)
        for part in ("work", "tmp", "logs"):
            (root / part).mkdir()
    except OSError as error:
        leases.closed(name)
        raise SandboxError(f"cannot create sandbox {name}: {error}") from error
    leases.started(name, ())
    return ProcessSandbox(name, root, marker, limits=limits, leases=leases)


def end_marked(marker: str) -> int:
    """Kill every process whose environment carries the marker, until none is left; returns how many there were."""
    ended = 0
    # A process may fork while its siblings are being killed, so look again until a pass finds none.
    for _ in range(20):
        found = list(marked(marker))
        if not found:
            break
        ended += sum(kill(process) for process in found)
    return ended


def remove_tree(root: Path) -> None:
    """Remove a sandbox's directory, also where an agent has taken permissions away."""
    for parent, directories, _ in os.walk(root):
        for name in directories:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(root, ignore_errors=True)


def marked(marker: str) -> list[ProcessIdentity]:
    """The live processes whose environment carries the marker."""
    wanted = f"{MARKER}={marker}".encode()
    found: list[ProcessIdentity] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        process = identify(int(entry.name))
        with contextlib.suppress(OSError):
            if process is not None and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return found
