"""Processes named by pid and start time, so that a reused pid is never mistaken for the process we started."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_PF_EXITING = 0x4
"""Linux, include/linux/sched.h."""


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, for good: no other process ever has the same pair on this boot of the machine."""

    pid: int
    start: str
    """Clock ticks since boot at which it started, and which boot that was."""

    @property
    def alive(self) -> bool:
        return start_of(self.pid) == self.start


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process; None when there is none of that pid."""
    start = start_of(pid)
    return None if start is None else ProcessIdentity(pid, start)


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    return ProcessIdentity(os.getpid(), start_of(os.getpid()) or "")


def start_of(pid: int) -> str | None:
    """Start time of a live process; None for a free pid, a zombie, and a process that is exiting."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    # After the command's closing parenthesis: state is field 0, flags 6, starttime 19 (proc(5) fields 3, 9 and 22).
    # A process that is on its way out counts as ended: process 1 kills everything in its namespace on that way.
    ending = fields[0] in "ZX" or int(fields[6]) & _PF_EXITING
    return None if ending else f"{fields[19]}@{_boot()}"


def state_of(pid: int) -> str:
    """The letter that the kernel gives a process's state (proc(5)); empty for a free pid."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def children_of(pid: int) -> tuple[int, ...]:
    """The processes that the first thread of a process has started and that are still there."""
    try:
        return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))
    except OSError:
        return ()


def kill(process: ProcessIdentity, *, wait_seconds: float = 5.0) -> bool:
    """SIGKILL exactly this process and wait until it has ended; True when that ended it.

    After False it was gone already, or lives on, as one does that waits for a disk: `process.alive` says which.
    """
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # Checked after the pidfd is open: from here on the number cannot come to mean another process.
        if not process.alive:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return bool(select.select([pidfd], [], [], wait_seconds)[0])
    finally:
        os.close(pidfd)


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    except OSError:
        return "unknown"
