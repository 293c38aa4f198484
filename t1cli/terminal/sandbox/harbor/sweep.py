"""Ending what dead owners and dead workers left of Harbor environments, by the record alone."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Final

from t1cli.errors import CouldNotAsk
from t1cli.terminal.sandbox.harbor.link import WorkerLink
from t1cli.terminal.sandbox.harbor.settings import SETTINGS, WorkerSettings
from t1cli.terminal.sandbox.harbor.worker import END_SECONDS
from t1cli.terminal.sandbox.leases import Lease, LeaseBook, owner_matches
from t1cli.terminal.sandbox.sandbox import SandboxError
from t1cli.terminal.sandbox.swept import Swept

_LOOK_SECONDS: Final = 0.1


def is_harbor_directory(directory: Path) -> bool:
    """Whether the record of a directory is about Harbor environments."""
    return (directory / SETTINGS).is_file()


async def sweep_leases(directory: Path, owner: str | None = None) -> Swept:
    """End the environments on record whose owner is dead, each whatever becomes of the others.

    A worker outlives its owner by as long as it takes to end its environments: it is waited for. What a dead worker has
    left is ended by a new one where Harbor finds it by its name. Raises CouldNotAsk when none can be started.
    """
    if not is_harbor_directory(directory):
        return Swept()
    book = LeaseBook(directory)
    wanted = _left(book, owner)
    await _workers_ended(wanted)
    names = {lease.name for lease in wanted}
    still_open = [lease for lease in _left(book, owner) if lease.name in names]
    failed = await _reclaim(directory, still_open) if still_open else {}
    return Swept(tuple(lease.name for lease in wanted if lease.name not in failed), failed)


def _left(book: LeaseBook, owner: str | None) -> list[Lease]:
    left = [lease for lease in book.leases() if not lease.closed and not lease.owner_alive]
    return [lease for lease in left if owner is None or owner_matches(lease.owner, owner)]


async def _workers_ended(leases: list[Lease]) -> None:
    """Wait until the workers of dead owners have ended, which they do by themselves."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline and any(process.alive for lease in leases for process in lease.processes):
        await asyncio.sleep(_LOOK_SECONDS)


async def _reclaim(directory: Path, leases: list[Lease]) -> dict[str, str]:
    """Have a new worker end them; returns why which could not be ended."""
    settings = WorkerSettings(**json.loads((directory / SETTINGS).read_text(encoding="utf-8")))
    try:
        link = await WorkerLink.start(settings)
    except SandboxError as error:
        raise CouldNotAsk(
            f"{len(leases)} sandboxes of dead owners are on record, and {error}",
            where=str(directory),
            hint=f"repair {settings.python}, then `t1 pool sweep {directory}`",
        ) from error
    failed: dict[str, str] = {}
    try:
        for lease in leases:
            try:
                await link.call("reclaim", name=lease.name)
            except SandboxError as error:
                failed[lease.name] = str(error)
    finally:
        await link.close()
    return failed
