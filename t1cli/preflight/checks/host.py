"""host: limits of processes and kernel on every node, against what the plan puts there."""

from __future__ import annotations

from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import EveryNode, ProbeOf
from t1cli.preflight.fleet import Probe

# Measured: a local trial holds at most 4 descriptors in the driver, a remote one up to 16 (client sockets, logs).
FDS_PER_LOCAL_TRIAL = 6
FDS_PER_REMOTE_TRIAL = 16
FDS_OF_THE_DRIVER = 512
PROCESSES_PER_TRIAL = 40
INOTIFY_PER_CONTAINER = 2

_LIMITS = Probe("t1cli.preflight.probes.limits:limits")


def _limits(_: Context) -> Probe:
    return _LIMITS


def file_descriptors(context: Context, found: Any) -> Saw:
    """Soft limit of open files against the concurrent trials; the hard limit says whether it can be raised."""
    trials, per_trial = context.trials_at_once, _fds_per_trial(context)
    needed = FDS_OF_THE_DRIVER + per_trial * trials
    soft, hard = found["open_files"]
    said = f"soft limit {_shown(soft)}, hard limit {_shown(hard)}"
    wanted = f"at least {FDS_OF_THE_DRIVER} + {per_trial} x {trials} trials = {needed}"
    if _at_least(soft, needed):
        return passed(said, wanted)
    if _at_least(hard, needed):
        where = "t1" if context.runs_here else "`ray start`"
        return failed(said, wanted, f"run `ulimit -n {needed}` in the shell that starts {where}")
    return failed(said, wanted, f"raise the hard limit (limits.conf or the service's LimitNOFILE) to {needed}")


def processes(context: Context, found: Any) -> Saw:
    """Processes that this user, the control group and the kernel allow, against the concurrent sandboxes."""
    trials = context.trials_at_once if context.spec.sandbox.kind == "local" else 0
    needed = PROCESSES_PER_TRIAL * trials
    limits = {
        "`ulimit -u`": found["processes"][0],
        "kernel.pid_max": found["pid_max"],
        "kernel.threads-max": found["threads_max"],
        "the control group's pids.max": found["cgroup_pids"],
    }
    known = {name: limit for name, limit in limits.items() if limit is not None}
    name = min(known, key=lambda one: known[one], default="")
    said = f"{known[name]} by {name}" if name else "no limit"
    wanted = f"at least {PROCESSES_PER_TRIAL} x {trials} local sandboxes = {needed}"
    if not name or known[name] >= needed:
        return passed(said, wanted)
    return failed(said, wanted, f"raise {name} to {needed}, or lower sandbox.capacity")


def inotify(context: Context, found: Any) -> Saw:
    """Instances of inotify: tools in containers take some each, and the kernel counts them per user, not per container.

    Too few show as `too many open files` although the descriptor limit is high.
    """
    containers = context.trials_at_once if context.spec.sandbox.kind != "local" and _containers_here(context) else 0
    limit, needed = found["inotify_instances"], INOTIFY_PER_CONTAINER * containers + 8
    if limit is None:
        return skipped("the kernel does not say its inotify limit")
    said, wanted = f"{limit} instances", f"{INOTIFY_PER_CONTAINER} x {containers} containers here + 8 = {needed}"
    if limit >= needed:
        return passed(said, wanted)
    return warned(said, wanted, f"sysctl fs.inotify.max_user_instances={max(8192, needed)}")


def locked_memory(context: Context, found: Any) -> Saw:
    """Locked memory: RDMA and pinned host buffers need it unlimited, as slime's own container start sets it."""
    soft, _ = found["locked_memory"]
    if soft is None:
        return passed("unlimited", "unlimited")
    fix = "`ulimit -l unlimited` before `ray start`, or `--ulimit memlock=-1` of the container"
    return warned(f"{soft // 1024} KiB", "unlimited", fix)


def _limits_on_slime(context: Context) -> Probe | Saw:
    return _LIMITS if context.on_slime else skipped("the embedded engine locks no memory")


def _containers_here(context: Context) -> bool:
    sandbox = context.spec.sandbox
    return (sandbox.kind == "pool" and sandbox.on_training_host) or (
        sandbox.kind == "harbor" and sandbox.memory_per_sandbox_gib > 0
    )


def _fds_per_trial(context: Context) -> int:
    return FDS_PER_LOCAL_TRIAL if context.spec.sandbox.kind == "local" else FDS_PER_REMOTE_TRIAL


def _at_least(limit: int | None, needed: int) -> bool:
    return limit is None or limit >= needed


def _shown(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)


_EVERY: ProbeOf = _limits

CHECKS = (
    Check("host.file_descriptors", ("S8",), EveryNode(_EVERY, file_descriptors)),
    Check("host.processes", ("S8",), EveryNode(_EVERY, processes)),
    Check("host.inotify", ("S8",), EveryNode(_EVERY, inotify)),
    Check("host.locked_memory", (), EveryNode(_limits_on_slime, locked_memory)),
)
