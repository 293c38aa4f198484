"""The provider's end of one worker: the process, its socket, and the calls that wait for an answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any, Final

from t1cli.terminal.sandbox.harbor.frames import framed, frames
from t1cli.terminal.sandbox.harbor.keeper import STOP_SECONDS, StillThere
from t1cli.terminal.sandbox.harbor.settings import SETTINGS, WorkerSettings
from t1cli.terminal.sandbox.harbor.worker import END_SECONDS
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, identify
from t1cli.terminal.sandbox.sandbox import SandboxError

LOG: Final = "worker.log"

_HELLO_SECONDS: Final = 120.0
_CANCEL_SECONDS: Final = 4 * STOP_SECONDS
_MAIN: Final = Path(__file__).with_name("worker_main.py")
_LOG_TAIL_BYTES: Final = 2000


class WorkerLink:
    """One worker. Belongs to the event loop that started it."""

    def __init__(self, process: subprocess.Popen[bytes], writer: asyncio.StreamWriter, log: Path) -> None:
        self._process, self._writer, self._log = process, writer, log
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading: asyncio.Task[None] | None = None
        self.identity = identify(process.pid) or ProcessIdentity(process.pid, "")
        self.alive = True
        self.versions: dict[str, Any] = {}

    @classmethod
    async def start(cls, settings: WorkerSettings) -> WorkerLink:
        """A worker that has said hello. Raises SandboxError with the end of its log."""
        directory = Path(settings.directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / SETTINGS).write_text(json.dumps(settings.as_json()), encoding="utf-8")
        ours, theirs = socket.socketpair()
        try:
            process = _spawn(settings.python, theirs.fileno(), directory / LOG)
        except OSError as error:
            ours.close()
            raise SandboxError(f"cannot start Harbor's worker with {settings.python}: {error}") from error
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        link = cls(process, writer, directory / LOG)
        link._reading = asyncio.create_task(link._read(reader))
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                link.versions = await link.call("hello", settings=settings.as_json())
            if link.versions["harbor"] is None:
                raise SandboxError(f"{settings.python} has no package named harbor")
        except BaseException as error:
            await link.close()
            if isinstance(error, TimeoutError):
                raise SandboxError(f"Harbor's worker said nothing for {_HELLO_SECONDS:g} s") from error
            raise
        return link

    async def call(self, what: str, **arguments: Any) -> Any:
        """The answer to one call. Raises SandboxError; a cancelled call is cancelled in the worker and waited for."""
        if not self.alive:
            raise self._gone()
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(framed({"id": number, "do": what, **arguments}))
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if self.alive:
                self._writer.write(framed({"cancel": number}))
                await asyncio.wait({answer}, timeout=_CANCEL_SECONDS)
            _mark_seen(answer)
            raise
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End the worker, which ends its environments first; safe to call twice."""
        self._lost()
        self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        try:
            await asyncio.to_thread(self._process.wait, END_SECONDS + STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ValueError):
            async for message in frames(reader):
                self._take(message)
        # Its end is only known once it has been reaped.
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, 5.0)
        self._lost()

    def _take(self, message: dict[str, Any]) -> None:
        answer = self._waiting.get(int(message["id"]))
        if answer is None or answer.done():
            return
        if "failed" not in message:
            answer.set_result(message.get("value"))
        elif message["failed"] == "cancelled":
            answer.cancel()
        else:
            kind = StillThere if message["failed"] == "still_there" else SandboxError
            answer.set_exception(kind(str(message["message"])))

    def _lost(self) -> None:
        self.alive = False
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._gone())

    def _gone(self) -> SandboxError:
        status, tail = self._process.poll(), ""
        with contextlib.suppress(OSError):
            tail = self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
        how = "is gone" if status is None else f"ended with status {status}"
        return SandboxError(f"Harbor's worker {how}, its sandboxes are gone; {self._log}: {tail[-500:] or 'empty'}")


def _spawn(python: str, descriptor: int, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            # -P: the directory of the file is no place to import from.
            [python, "-P", str(_MAIN), str(descriptor), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(descriptor,),
            env=_environment(),
            # A Ctrl-C is for whoever asks, who then ends the worker in order.
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    # An agent's requests to the trial's own endpoint are for this machine, whatever proxy leads out of it.
    local = {name: f"{os.environ.get(name, '')},127.0.0.1,localhost".lstrip(",") for name in ("no_proxy", "NO_PROXY")}
    # litellm would look for prices on the network while it is imported.
    return os.environ | local | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def _mark_seen(answer: asyncio.Future[Any]) -> None:
    if answer.done() and not answer.cancelled():
        answer.exception()
