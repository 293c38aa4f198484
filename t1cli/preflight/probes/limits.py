"""Limits of this process, of its user, of its control group and of the kernel."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from t1cli.preflight.probes.cgroup import own_limits


def limits(root: str = "/") -> dict[str, Any]:
    """Soft and hard resource limits (null: unlimited) and the kernel's; `root` stands for `/`."""
    kernel = Path(root, "proc/sys")
    return {
        "open_files": _both(resource.RLIMIT_NOFILE),
        "processes": _both(resource.RLIMIT_NPROC),
        "locked_memory": _both(resource.RLIMIT_MEMLOCK),
        "pid_max": number_in(kernel / "kernel/pid_max"),
        "threads_max": number_in(kernel / "kernel/threads-max"),
        "inotify_instances": number_in(kernel / "fs/inotify/max_user_instances"),
        "cgroup_pids": own_limits(root)["pids"],
    }


def number_in(path: Path) -> int | None:
    """The whole number that a file of the kernel holds; None for `max`, and when it cannot be read."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _both(which: int) -> list[int | None]:
    return [None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(which)]
