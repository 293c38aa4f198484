"""CPU seconds of a process with everything it started, ended children included."""

from __future__ import annotations

import os

import psutil


def tree_cpu_seconds(pid: int | None = None) -> float:
    """User and system seconds of a process, its reaped children and its living descendants with their reaped children.

    A child moves from the living to the reaped when it is waited for, so the sum neither loses nor doubles it.
    """
    try:
        root = psutil.Process(pid or os.getpid())
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    return sum(_own_and_reaped(process) for process in family)


def _own_and_reaped(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
