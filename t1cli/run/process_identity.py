"""Which process a record means: a process id alone is reused, so its start time and machine stand beside it."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

Liveness = Literal["alive", "dead", "unknown"]


@dataclass(frozen=True)
class ProcessIdentity:
    """One process on one boot of one machine."""

    pid: int
    started: float
    """Clock ticks since boot on Linux (immune to clock changes), seconds since 1970 elsewhere."""
    boot: str
    """Boot ID of the machine; empty where there is none."""
    host: str

    @classmethod
    def of(cls, pid: int | None = None) -> ProcessIdentity:
        """The identity of a living process, this one by default. Raises ProcessLookupError when there is none."""
        pid = os.getpid() if pid is None else pid
        started = _started(pid)
        if started is None:
            raise ProcessLookupError(pid)
        return cls(pid, started, _boot(), socket.gethostname())

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ProcessIdentity:
        """Read back what `dataclasses.asdict` wrote; raises KeyError or ValueError on anything else."""
        return cls(int(str(value["pid"])), float(str(value["started"])), str(value["boot"]), str(value["host"]))

    def liveness(self) -> Liveness:
        """`unknown` when the record comes from another machine or container."""
        if self.host != socket.gethostname():
            return "unknown"
        if self.boot != _boot():
            return "dead"
        return "alive" if _started(self.pid) == self.started else "dead"

    def send(self, number: signal.Signals) -> bool:
        """Signal exactly this process; False when it is no longer there."""
        try:
            handle = _handle(self.pid)
        except ProcessLookupError:
            return False
        try:
            # Asked once the handle is held: from here on the number cannot come to mean another process.
            if self.liveness() != "alive":
                return False
            if handle is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            if handle is not None:
                os.close(handle)
        return True


def _handle(pid: int) -> int | None:
    """A file descriptor that means this process for good; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, NotImplementedError):  # not Linux, or a kernel before 5.3
        return None
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return None
        raise ProcessLookupError(pid) from error


def _started(pid: int) -> float | None:
    """Start time of a process that is neither gone nor a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return _started_without_proc(pid)
    # The command name is in parentheses and may contain anything; the fields after it are fixed.
    fields = stat.rpartition(")")[2].split()
    state, start_ticks = fields[0], fields[19]
    return None if state in "ZX" else float(start_ticks)


def _started_without_proc(pid: int) -> float | None:
    if Path("/proc/self/stat").exists():
        return None
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
