"""The process that owns Harbor environments: it answers its provider, and ends them all when that is gone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from t1cli.terminal.harness.shielded import finish
from t1cli.terminal.sandbox.harbor.environments import trial_directory
from t1cli.terminal.sandbox.harbor.frames import framed, frames
from t1cli.terminal.sandbox.harbor.keeper import Keeper, StillThere
from t1cli.terminal.sandbox.harbor.settings import WorkerSettings
from t1cli.terminal.sandbox.harbor.terminus import play_terminus
from t1cli.terminal.sandbox.sandbox import SandboxError

END_SECONDS: Final = 150.0
"""For everything to be ended once the provider is gone."""


class Worker:
    """Answers calls, each in a task of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._keeper: Keeper | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Answer until the provider is gone or closes; nothing lives any more when this returns."""
        try:
            async for message in frames(self._reader):
                if "cancel" in message:
                    self._cancel(int(message["cancel"]))
                else:
                    number = int(message["id"])
                    self._tasks[number] = asyncio.create_task(self._answer(number, message))
        finally:
            # Shielded: the socket's end and the parent's death are two reasons, and come together.
            with contextlib.suppress(TimeoutError):
                await finish(self._end(), seconds=END_SECONDS)

    def _cancel(self, number: int) -> None:
        if number in self._tasks:
            self._tasks[number].cancel()

    async def _answer(self, number: int, message: Mapping[str, Any]) -> None:
        answer: dict[str, Any]
        try:
            answer = {"value": await self._do(str(message["do"]), message)}
        except asyncio.CancelledError:
            answer = {"failed": "cancelled", "message": ""}
        except StillThere as error:
            answer = {"failed": "still_there", "message": str(error)}
        except SandboxError as error:
            answer = {"failed": "sandbox", "message": str(error)}
        except (Exception, SystemExit) as error:  # of this worker or of Harbor: the caller's trial ends as lost
            answer = {"failed": "sandbox", "message": f"{type(error).__name__}: {error}"}
        finally:
            self._tasks.pop(number, None)
        try:
            self._writer.write(framed({"id": number, **answer}))
        except ValueError as error:
            self._writer.write(framed({"id": number, "failed": "sandbox", "message": str(error)}))

    async def _do(self, what: str, asked: Mapping[str, Any]) -> Any:
        if what == "hello":
            return self._hello(asked)
        keeper, name = self._live(), str(asked["name"])
        match what:
            case "create":
                return await keeper.create(name, asked["task"])
            case "close":
                return await keeper.end(name)
            case "reclaim":
                return await keeper.reclaim(name)
            case _:
                return await self._use(what, name, asked)

    async def _use(self, what: str, name: str, asked: Mapping[str, Any]) -> Any:
        machine = self._live().machine(name)
        match what:
            case "exec":
                seconds, cwd, env = float(asked["timeout_seconds"]), str(asked["cwd"]), asked["env"]
                result = await machine.exec(str(asked["command"]), timeout_seconds=seconds, cwd=cwd, env=env)
                return {"output": result.output, "exit_code": result.exit_code, "timed_out": result.timed_out}
            case "put_directory":
                read_only = bool(asked["read_only"])
                return await machine.put_directory(Path(asked["source"]), str(asked["target"]), read_only=read_only)
            case "reset_directory":
                return await machine.reset_directory(str(asked["path"]))
            case "read_file":
                content = await machine.read_file(str(asked["path"]), max_bytes=int(asked["max_bytes"]))
                return None if content is None else base64.b64encode(content).decode()
            case "end_processes":
                return await machine.end_processes()
            case "terminus-2":
                return await play_terminus(machine, trial_directory(self._live().settings, name), asked)
        raise ValueError(f"no such call: {what}")

    def _hello(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Take the settings; say which Python and which Harbor this is."""
        self._keeper = Keeper(WorkerSettings(**asked["settings"]))
        return {"python": ".".join(map(str, sys.version_info[:3])), "harbor": _harbor_version()}

    def _live(self) -> Keeper:
        if self._keeper is None:
            raise ValueError("no hello yet")
        return self._keeper

    async def _end(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._keeper is not None:
            await self._keeper.end_all()


async def work(descriptor: int, parent: int) -> None:
    """Serve on an inherited socket until the other end is closed, `parent` has died, or SIGTERM comes."""
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor))
    serving = asyncio.ensure_future(Worker(reader, writer).serve())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, serving.cancel)
    # A fork of the parent may hold the other end open after the parent's death.
    try:
        pidfd = os.pidfd_open(parent)
    except ProcessLookupError:
        serving.cancel()
    else:
        loop.add_reader(pidfd, _once, loop, pidfd, serving)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _once(loop: asyncio.AbstractEventLoop, pidfd: int, serving: asyncio.Future[None]) -> None:
    loop.remove_reader(pidfd)
    os.close(pidfd)
    serving.cancel()


def _harbor_version() -> str | None:
    """Null where Harbor cannot be imported at all."""
    if importlib.util.find_spec("harbor") is None:
        return None
    try:
        return version("harbor")
    except PackageNotFoundError:
        return "of unknown version"
