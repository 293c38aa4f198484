"""The sandbox protocol that every backend implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class ExecResult:
    """What one command did."""

    output: str
    """stdout and stderr in the order written, decoded with replacement."""
    exit_code: int
    """The command's exit status; 124 when it was stopped at its time limit."""
    timed_out: bool
    seconds: float


class SandboxError(Exception):
    """The sandbox itself failed: an infrastructure outcome, never reward 0."""


class Sandbox(Protocol):
    """One live, private machine. Files and background processes persist between commands."""

    name: str

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command. Raises SandboxError when the sandbox is gone.

        A sandbox without a private root sets T1_ROOT to the host directory that stands for `/`; where the verifier's
        Python is not the sandbox's own, T1_PYTHON names it. A test.sh reads both, empty by default.
        """
        ...

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Place a host directory's files at an absolute path inside; a read-only target is emptied first."""
        ...

    async def reset_directory(self, path: str) -> None:
        """Make an absolute path inside an empty directory that commands can write to, whatever was there."""
        ...

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file inside, no link followed; None when absent. SandboxError above max_bytes."""
        ...

    async def end_processes(self) -> int:
        """End every process the agent left running; returns how many."""
        ...

    async def close(self) -> None:
        """Destroy it: processes, mounts and directory. Safe to call twice."""
        ...


class SandboxProvider(Protocol):
    """Makes sandboxes. A sandbox's name and owner are on record before it exists."""

    async def create(self, name: str, *, owner: str) -> Sandbox:
        """A ready sandbox with an empty `/work`. Raises SandboxError."""
        ...

    async def sweep(self, owner: str) -> tuple[str, ...]:
        """Destroy what a dead owner left behind; returns the names."""
        ...

    async def close(self) -> None:
        """Destroy all that is left of this provider."""
        ...


@runtime_checkable
class RunsAgents(Protocol):
    """A sandbox whose backend has agents of its own, which work in it from outside."""

    async def run_agent(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run the agent that `request["agent"]` names, until it ends. Raises SandboxError."""
        ...


@dataclass(frozen=True)
class Placement:
    """What a sandbox is for; a hint for whoever decides where it runs, and in which order."""

    task: str
    group: str
    """Trials that compete as one: a pool serves groups in turn."""
    task_path: str = ""
    instruction: str = ""


@runtime_checkable
class QueuedProvider(Protocol):
    """A provider where a sandbox has to be waited for, in a line that is shared with others."""

    async def reserve(self, name: str, *, owner: str, placement: Placement) -> None:
        """Wait for the right to create `name`, which `create` then uses. Cancelling leaves the line."""
        ...

    async def give_up(self, name: str) -> None:
        """Give a right back that `create` has not used; nothing for one that it has."""
        ...
