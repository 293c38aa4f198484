"""Limits of this process's control group and all groups above it, version 2 or 1: what /proc/meminfo does not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_UNLIMITED_FROM = 1 << 60
"""Version 1 writes a huge number for no limit."""


def own_limits(root: str = "/") -> dict[str, Any]:
    """`memory`: the tightest limit as {limit, used, group} in bytes or null; `pids`: limit or null; `cpus`: cores."""
    memory, pids, cpus = None, None, None
    for group in _memory_groups(root):
        found = _memory(group)
        if found is not None and (memory is None or found["limit"] - found["used"] < memory["limit"] - memory["used"]):
            memory = found
    for group in _groups(root, "pids"):
        pids = _least(pids, _number(group / "pids.max"))
    for group in _groups(root, "cpu"):
        cpus = _least(cpus, _cores(group))
    return {"memory": memory, "pids": pids, "cpus": cpus}


def oom_kills(root: str = "/") -> int:
    """Processes that the kernel has killed for want of memory within this process's own group."""
    counts = [_keyed(group / "memory.events", "oom_kill") for group in _groups(root, "memory")[:1]]
    return sum(count for count in counts if count is not None)


def _memory(group: Path) -> dict[str, Any] | None:
    for limit_name, used_name, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, used = _number(group / limit_name), _number(group / used_name)
        if limit is None or used is None or limit >= _UNLIMITED_FROM:
            continue
        # Page cache that nobody reads is given back before anybody is killed.
        used -= _keyed(group / "memory.stat", cache) or 0
        return {"limit": limit, "used": max(0, used), "group": group.name or "/"}
    return None


def _cores(group: Path) -> float | None:
    try:
        quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        quota, period = str(_number(group / "cpu.cfs_quota_us")), str(_number(group / "cpu.cfs_period_us"))
    try:
        cores = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None


def _memory_groups(root: str) -> list[Path]:
    return _groups(root, "memory")


def _groups(root: str, controller: str) -> list[Path]:
    """This process's group of a controller and every group above it that can be seen, innermost first."""
    mount, path = _own(root, controller)
    inside = [mount / path, *(mount / path).parents]
    seen = [group for group in inside if group.is_relative_to(mount) and group.is_dir()]
    return seen or [mount]


def _own(root: str, controller: str) -> tuple[Path, str]:
    base = Path(root, "sys/fs/cgroup")
    try:
        lines = Path(root, "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return base, ""
    rows = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    for _, names, path in rows:
        if controller in names.split(","):
            return base / controller, path.strip("/")
    unified = next((path for number, names, path in rows if number == "0" and not names), "")
    return base, unified.strip("/")


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _keyed(path: Path, key: str) -> int | None:
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return None
    return next((int(row[1]) for row in rows if len(row) == 2 and row[0] == key and row[1].isdigit()), None)


def _least(first: Any, second: Any) -> Any:
    known = [value for value in (first, second) if value is not None]
    return min(known) if known else None
