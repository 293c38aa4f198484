"""One environment of the worker, as a sandbox of a trial."""

from __future__ import annotations

import base64
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from t1cli.terminal.sandbox.command import NO_WORDS, not_runnable
from t1cli.terminal.sandbox.harbor.link import WorkerLink
from t1cli.terminal.sandbox.plain_text import is_plain
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError

T = TypeVar("T")


class Keeps(Protocol):
    """What a sandbox needs of its provider."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop that the worker's link belongs to."""
        ...

    async def end(self, name: str, link: WorkerLink) -> None:
        """End a sandbox; runs in that loop."""
        ...


class HarborBackedSandbox:
    """One environment in the worker, usable from any event loop."""

    def __init__(self, name: str, provider: Keeps, link: WorkerLink, task: Path | None) -> None:
        self.name = name
        self._provider, self._link = provider, link
        self._task = task
        """The task whose own image has its files; null for an image that has none of a task's."""
        self._closed = False

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command. Raises SandboxError when the sandbox or the worker is gone."""
        if not is_plain(command):
            return not_runnable(NO_WORDS)
        began = time.monotonic()
        asked = {"command": command, "timeout_seconds": timeout_seconds, "cwd": cwd, "env": env}
        said = await self._ask("exec", **asked)
        return ExecResult(said["output"], said["exit_code"], said["timed_out"], time.monotonic() - began)

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Place a host directory's files at an absolute path inside; a read-only target is emptied first.

        What an image was built of lies where its Dockerfile has put it, and is not placed once more.
        """
        if self._task is not None and source.resolve().is_relative_to(self._task.resolve() / "environment"):
            return
        await self._ask("put_directory", source=str(source.resolve()), target=target, read_only=read_only)

    async def reset_directory(self, path: str) -> None:
        """Make an absolute path inside an empty directory that commands can write to."""
        await self._ask("reset_directory", path=path)

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file inside; None when absent. Raises SandboxError above `max_bytes`."""
        content = await self._ask("read_file", path=path, max_bytes=max_bytes)
        return None if content is None else base64.b64decode(content)

    async def end_processes(self) -> int:
        """End every process the agent left running; returns how many."""
        return int(await self._ask("end_processes"))

    async def run_agent(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run an agent of Harbor's in this environment: `agent` names it, the rest is for it. Raises SandboxError."""
        said: dict[str, Any] = await self._ask(str(request["agent"]), **request)
        return said

    async def close(self) -> None:
        """End the environment. Raises SandboxError when its provider could not. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self._provider.run(self._provider.end(self.name, self._link))

    async def _ask(self, what: str, **arguments: Any) -> Any:
        if self._closed:
            raise SandboxError(f"sandbox {self.name} is gone: it was closed")
        return await self._provider.run(self._link.call(what, name=self.name, **arguments))
