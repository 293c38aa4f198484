"""A Harbor environment that leaves something behind when nobody stops it, and hangs or fails where it is told to."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

from t1cli.terminal.sandbox.harbor.bubblewrap import BubblewrapEnvironment
from t1cli.terminal.sandbox.process_identity import ProcessIdentity, identify, kill


class Leaving(BubblewrapEnvironment):
    """Beside its sandbox a machine that ends only when it is stopped, found by the environment's name like a container.

    `machines`: directory of what lives; `hang_start`: a start that never ends once the machine is there;
    `exit_start`: a start that exits, as of a missing package; `refuse_stop`: a stop fails while this file exists.
    """

    def __init__(
        self,
        *arguments: Any,
        machines: str,
        hang_start: bool = False,
        exit_start: bool = False,
        refuse_stop: str = "",
        **more: Any,
    ):
        self._exit_start = exit_start
        self._record = Path(machines) / str(more["session_id"])
        self._hang_start, self._refuse_stop = hang_start, refuse_stop
        super().__init__(*arguments, **more)

    async def start(self, force_build: bool) -> None:
        if self._exit_start:
            raise SystemExit("no package")
        await super().start(force_build)
        machine = subprocess.Popen(["sleep", "100000"], start_new_session=True, stdin=subprocess.DEVNULL)
        found = identify(machine.pid)
        assert found is not None
        self._record.parent.mkdir(exist_ok=True)
        self._record.write_text(f"{found.pid} {found.start}")
        if self._hang_start:
            await asyncio.sleep(1e6)

    async def stop(self, delete: bool) -> None:
        if self._refuse_stop and os.path.exists(self._refuse_stop):
            raise ConnectionError("the provider is away")
        await super().stop(delete)
        if self._record.exists():
            pid, start = self._record.read_text().split()
            kill(ProcessIdentity(int(pid), start))
            self._record.unlink()


class WithoutTerminal(BubblewrapEnvironment):
    """Its terminal multiplexer ends as soon as it has been started, as in an environment with a sandbox per command."""

    async def exec(self, command: str, **more: Any) -> Any:
        answer = await super().exec(command, **more)
        if "new-session" in command:
            await super().exec("tmux kill-server", **more)
        return answer
