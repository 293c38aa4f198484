"""host: what the machine offers against what the plan needs."""

from __future__ import annotations

import os
import resource

import psutil

from t1cli.preflight.check import NOT_A_NODE, Check, Context, Saw, failed, passed, skipped, warned

GIB = 1024**3

# Measured: a local trial holds at most 4 descriptors in the driver, a remote one up to 16 (client sockets, logs).
FDS_PER_LOCAL_TRIAL = 6
FDS_PER_REMOTE_TRIAL = 16
FDS_OF_THE_DRIVER = 512
PROCESSES_PER_TRIAL = 40


def file_descriptors(context: Context) -> Saw:
    """Soft limit of open files against the concurrent trials; the hard limit says whether it can be raised."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    trials, per_trial = _concurrent_trials(context), _fds_per_trial(context)
    needed = FDS_OF_THE_DRIVER + per_trial * trials
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"soft limit {soft}, hard limit {hard}"
    wanted = f"at least {FDS_OF_THE_DRIVER} + {per_trial} x {trials} trials = {needed}"
    if soft >= needed:
        return passed(found, wanted)
    if hard >= needed or hard == resource.RLIM_INFINITY:
        return failed(found, wanted, f"run `ulimit -n {needed}` in the shell that starts t1")
    return failed(found, wanted, f"raise the hard limit (limits.conf or the service's LimitNOFILE) to {needed}")


def processes(context: Context) -> Saw:
    """Process limit of this user against the concurrent sandboxes."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    needed = PROCESSES_PER_TRIAL * _concurrent_trials(context)
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = _pid_max() if soft == resource.RLIM_INFINITY else min(soft, _pid_max())
    found, wanted = f"limit {limit}", f"at least {PROCESSES_PER_TRIAL} per trial = {needed}"
    if limit >= needed:
        return passed(found, wanted)
    return failed(found, wanted, f"run `ulimit -u {needed}`, or lower sandbox.capacity")


def memory(context: Context) -> Saw:
    """Memory that is available now (page cache counted as free) against the plan's host table."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    available, needed = psutil.virtual_memory().available / GIB, context.plan.host.needed_gib
    limit = _cgroup_memory_left()
    if limit is not None and limit < available:
        available, note = limit, " (cgroup limit)"
    else:
        note = ""
    found, wanted = f"{available:.1f} GiB available{note}", f"{needed:.1f} GiB per node by the plan"
    if available >= needed:
        return passed(found, wanted)
    return failed(found, wanted, "lower sandbox.capacity, or end what else uses memory on this machine")


def swap(context: Context) -> Saw:
    """Swap in use slows every step without an error."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    used = psutil.swap_memory().used / GIB
    if used < 1:
        return passed(f"{used:.1f} GiB of swap in use", "below 1 GiB")
    return warned(f"{used:.1f} GiB of swap in use", "below 1 GiB", "free memory before a long run")


def _concurrent_trials(context: Context) -> int:
    return min(context.plan.pool.demand, context.plan.pool.capacity) or 1


def _fds_per_trial(context: Context) -> int:
    return FDS_PER_LOCAL_TRIAL if context.spec.sandbox.kind == "local" else FDS_PER_REMOTE_TRIAL


def _pid_max() -> int:
    try:
        with open("/proc/sys/kernel/pid_max") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 32768


def _cgroup_memory_left() -> float | None:
    """GiB left below this process's cgroup limit, v2 or v1; None when there is no limit to read."""
    for limit_path, used_path in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            with open(limit_path) as limit_file, open(used_path) as used_file:
                limit, used = int(limit_file.read()), int(used_file.read())
        except (OSError, ValueError):
            continue
        if limit < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            return (limit - used) / GIB
    return None


CHECKS = (
    Check("host.file_descriptors", ("S8",), file_descriptors),
    Check("host.processes", ("S8",), processes),
    Check("host.memory", ("M8", "S5"), memory),
    Check("host.swap", ("M8",), swap),
)
