"""The live environments of one worker: made, used and ended here, whoever asks."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, Final

from t1cli.terminal.harness.shielded import finish
from t1cli.terminal.sandbox.harbor.environments import (
    build_environment,
    defines_image,
    read_record,
    trial_directory,
    write_record,
)
from t1cli.terminal.sandbox.harbor.machine import Machine, prepared
from t1cli.terminal.sandbox.harbor.settings import WorkerSettings
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.sandbox import SandboxError

STOP_SECONDS: Final = 60.0
"""For one environment to be ended by its provider."""

_STOP_TRIES: Final = 3


class StillThere(SandboxError):
    """An environment could not be ended: its lease stays open."""


class Keeper:
    """Environments by the names of their sandboxes."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.book = LeaseBook(Path(settings.directory))
        self._environments: dict[str, Any] = {}
        self._machines: dict[str, Machine] = {}

    async def create(self, name: str, task: str | None) -> dict[str, bool]:
        """Make an environment of a task (null: of none). Raises SandboxError; what had begun is ended then."""
        path = None if task is None else Path(task)
        write_record(self.settings, name, task)
        try:
            environment, users = build_environment(self.settings, name, path)
            self._environments[name] = environment
            async with asyncio.timeout(self.settings.create_seconds):
                await environment.start(force_build=False)
                await environment.run_healthcheck()
                self._machines[name] = await prepared(environment, users)
        except BaseException as error:
            await finish(self.end(name), seconds=_STOP_TRIES * STOP_SECONDS)
            # A provider whose package is missing may exit.
            if isinstance(error, SandboxError) or not isinstance(error, Exception | SystemExit):
                raise
            raise SandboxError(f"cannot create {name}: {_said(error)}") from error
        return {"has_files": path is not None and defines_image(path)}

    def machine(self, name: str) -> Machine:
        """A live sandbox. Raises SandboxError."""
        if name not in self._machines:
            raise SandboxError(f"sandbox {name} is gone")
        return self._machines[name]

    async def end(self, name: str) -> None:
        """End an environment and write that down, whatever cancels the caller meanwhile. Raises StillThere."""
        await finish(self._end(name), seconds=_STOP_TRIES * (STOP_SECONDS + 2.0))

    async def _end(self, name: str) -> None:
        self._machines.pop(name, None)
        environment = self._environments.pop(name, None)
        if environment is not None:
            await _stop(environment, name)
        self._ended(name, swept=False)

    async def end_all(self) -> None:
        """End whatever lives, all at once."""
        await asyncio.gather(*(self.end(name) for name in list(self._environments)), return_exceptions=True)

    async def reclaim(self, name: str) -> bool:
        """End what another worker has left under a name; false when nothing of it is on record.

        Environments that find their machine by its name (containers of this host) are ended by it; the others can only
        be left to the lifetime that their provider was told.
        """
        try:
            task = read_record(self.settings, name)
        except (OSError, ValueError, KeyError):
            self._ended(name, swept=True)
            return False
        environment, _ = build_environment(self.settings, name, None if task is None else Path(task))
        await _stop(environment, name)
        self._ended(name, swept=True)
        return True

    def _ended(self, name: str, *, swept: bool) -> None:
        shutil.rmtree(trial_directory(self.settings, name), ignore_errors=True)
        self.book.closed(name, swept=swept)


async def _stop(environment: Any, name: str) -> None:
    for attempt in range(1, _STOP_TRIES + 1):
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await environment.stop(delete=True)
            return
        except (Exception, SystemExit) as error:  # whatever a provider's client raises
            if attempt == _STOP_TRIES:
                raise StillThere(f"cannot end {name}: {_said(error)}") from error
        await asyncio.sleep(0.5 * attempt)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[-500:]}"
