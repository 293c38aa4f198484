"""One pool server as a process: sockets, signals, a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from t1cli.errors import BadInput, CouldNotAsk, Refused
from t1cli.terminal.quiet_server import QuietServer
from t1cli.terminal.sandbox.pool.app import PoolApp
from t1cli.terminal.sandbox.pool.operations import Pool


@dataclass(frozen=True)
class Address:
    """Where a server listens; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 18081

    @property
    def is_loopback(self) -> bool:
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"


async def serve(pool: Pool, address: Address, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends at once what still runs.

    Raises BadInput for an address beyond loopback without tokens, CouldNotAsk when it cannot be bound, and Refused
    while another server uses the directory.
    """
    if not address.is_loopback and not pool.settings.tokens:
        raise BadInput(
            f"{address.host} is reachable from other machines, and whoever reaches a pool runs commands on it",
            where="--host",
            hint="give --token-file, or bind to 127.0.0.1",
        )
    lock = _only_server_of(pool.settings.directory)
    try:
        await _serve(pool, _bind(address), ready)
    finally:
        os.close(lock)


async def _serve(pool: Pool, listening: socket.socket, ready: Callable[[str], None]) -> None:
    host, port = listening.getsockname()[:2]
    server = QuietServer(uvicorn.Config(PoolApp(pool), log_level="warning", access_log=False, timeout_keep_alive=75))
    stop = _Signals()
    try:
        closed, swept = await pool.start()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        ready(json.dumps({"host": host, "port": port, "closed_leases": closed, "swept": len(swept)}))
        await asyncio.wait({serving, stop.first}, return_when=asyncio.FIRST_COMPLETED)
        stopping = asyncio.create_task(pool.stop())
        await asyncio.wait({stopping, stop.second}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            stopping.cancel()
            await asyncio.wait({stopping})
            await pool.provider.close()
        server.should_exit = True
        await serving
    finally:
        listening.close()


class _Signals:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.first: asyncio.Future[None] = loop.create_future()
        self.second: asyncio.Future[None] = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        for future in (self.first, self.second):
            if not future.done():
                future.set_result(None)
                return


def _only_server_of(directory: Path) -> int:
    """A lock that ends with this process: the journal belongs to one server, and a start sweeps what it finds."""
    lock = os.open(directory / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        message = "another pool server works in this directory"
        raise Refused(message, where=str(directory), hint="a --directory of its own for each server") from error
    return lock


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        message = f"cannot listen on {address.host}:{address.port}: {error.strerror}"
        raise CouldNotAsk(message, where="--port", hint="--port 0 takes a free one") from error
    return listening
