"""Memory of a node as it is now, who holds it, and whether the kernel has had to kill for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from t1cli.preflight.probes.cgroup import oom_kills, own_limits
from t1cli.preflight.probes.kernel_log import kernel_log

_HOLDERS = 3


def memory(root: str = "/") -> dict[str, Any]:
    """Bytes: total, available, swap in use, shared memory, the control group's limit, and the largest processes."""
    info = _meminfo(Path(root, "proc/meminfo"))
    return {
        "total": info.get("MemTotal", 0),
        "available": info.get("MemAvailable", info.get("MemFree", 0)),
        "swap_used": info.get("SwapTotal", 0) - info.get("SwapFree", 0),
        "shared": _shared(Path(root, "dev/shm")),
        "cgroup": own_limits(root)["memory"],
        "cpus": own_limits(root)["cpus"],
        "holders": _holders(Path(root, "proc")),
    }


def kills(root: str = "/") -> dict[str, Any]:
    """What the kernel's log and counters say of processes killed for want of memory."""
    lines = kernel_log(("out of memory: killed process", "oom-kill:"), Path(root, "dev/kmsg"))
    return {"log": lines, "counted": _vmstat(Path(root, "proc/vmstat")), "own_group": oom_kills(root)}


def _meminfo(path: Path) -> dict[str, int]:
    found = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * 1024
    return found


def _shared(path: Path) -> dict[str, int] | None:
    try:
        stat = os.statvfs(path)
    except OSError:
        return None
    return {"size": stat.f_blocks * stat.f_frsize, "free": stat.f_bavail * stat.f_frsize}


def _holders(proc: Path) -> list[dict[str, Any]]:
    """The largest processes by resident memory, by pid and program."""
    page = os.sysconf("SC_PAGE_SIZE")
    found: list[dict[str, Any]] = []
    for entry in os.listdir(proc) if proc.is_dir() else ():
        pages = _text(proc / entry / "statm").split() if entry.isdigit() else []
        if len(pages) > 1:
            name = _text(proc / entry / "comm").strip()
            found.append({"pid": int(entry), "name": name, "bytes": int(pages[1]) * page})
    return sorted(found, key=lambda holder: -holder["bytes"])[:_HOLDERS]


def _vmstat(path: Path) -> int | None:
    rows = (line.split() for line in _text(path).splitlines())
    return next((int(row[1]) for row in rows if len(row) == 2 and row[0] == "oom_kill"), None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
