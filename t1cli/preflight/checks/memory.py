"""host: memory of every node as it is now, and clocks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memory_model.units import GIB
from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.cluster_fleet import cluster_said
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import NoNodes, Probe

EMBEDDED_SHARED_GIB = 0.25
"""The object store of the private Ray."""
SLIME_SHARED_GIB = 16.0
"""What slime's documented container start asks for (docs of slime 0.3.0)."""
LISTED_KILL_SECONDS = 24 * 3600
RECENT_KILL_SECONDS = 2 * 3600
"""An older kill is told without a warning: whatever it was, this node has lived with it since."""
_VICTIM = re.compile(r"Killed process (\d+) \(([^)]*)\)", re.IGNORECASE)
_HELD = re.compile(r"anon-rss:(\d+)kB")
MOST_SKEW_SECONDS = 1.0
"""A report that says it began 2 s before its trial counts as stale, so half of that is the most a clock may be off."""

_MEMORY = Probe("t1cli.preflight.probes.memory:memory")
_KILLS = Probe("t1cli.preflight.probes.memory:kills")


def _memory(_: Context) -> Probe:
    return _MEMORY


def _kills(_: Context) -> Probe:
    return _KILLS


def memory(context: Context, found: Any) -> Saw:
    """Memory that is available now (page cache counted as free) against the plan's host table."""
    available, needed = _available_gib(found), context.plan.host.needed_gib
    note = _group_note(found)
    said, wanted = f"{available:.1f} GiB available{note}", f"{needed:.1f} GiB per node by the plan"
    if available >= needed:
        return passed(said, wanted)
    said += f"; held most by {_holders(found)}" if found["holders"] else ""
    return failed(said, wanted, "lower sandbox.capacity, or end what else uses memory on this machine")


def swap(context: Context, found: Any) -> Saw:
    """Swap in use slows every step without an error."""
    used = found["swap_used"] / GIB
    if used < 1:
        return passed(f"{used:.1f} GiB of swap in use", "below 1 GiB")
    return warned(f"{used:.1f} GiB of swap in use", "below 1 GiB", "free memory before a long run")


def control_group(context: Context, found: Any) -> Saw:
    """Limits of the control group, which /proc/meminfo and psutil do not show, against what a node is said to have."""
    group, cores = found["cgroup"], found["cpus"]
    said, lacking = [], []
    if group is not None:
        limit = group["limit"] / GIB
        said.append(f"memory {limit:.1f} GiB by group {group['group']}")
        if limit < context.plan.host.needed_gib:
            lacking.append(f"{context.plan.host.needed_gib:.1f} GiB by the plan")
    if cores is not None:
        said.append(f"{cores:g} cores")
    wanted = ", ".join(lacking) or "no tighter than the plan"
    if not said:
        return passed("no limit", wanted)
    if lacking:
        fix = "raise the container's memory limit (`--memory`, resources.limits.memory), or use a larger node"
        return failed(", ".join(said), wanted, fix)
    if cores is not None and cores < context.spec.hardware.cpu_cores:
        wanted = f"{context.spec.hardware.cpu_cores} cores, as hardware.cpu_cores says"
        return warned(", ".join(said), wanted, "raise the container's CPU limit, or correct hardware.cpu_cores")
    return passed(", ".join(said), wanted)


def shared_memory(context: Context, found: Any) -> Saw:
    """/dev/shm: Ray's object store and NCCL's buffers live there; a container's default of 64 MiB ends both."""
    needed = SLIME_SHARED_GIB if context.on_slime else EMBEDDED_SHARED_GIB
    wanted = f"at least {needed:g} GiB"
    if found["shared"] is None:
        return warned("no /dev/shm", wanted, "mount a tmpfs at /dev/shm")
    free = found["shared"]["free"] / GIB
    if free >= needed:
        return passed(f"{free:.1f} GiB free in /dev/shm", wanted)
    judge = failed if free < needed / 4 else warned
    return judge(
        f"{free:.2f} GiB free in /dev/shm", wanted, f"`--shm-size={needed:g}g` of the container, or `--ipc=host`"
    )


def oom_kills(context: Context, found: Any) -> Saw:
    """Processes that the kernel has killed for want of memory: the next campaign on this node may be the next."""
    log, counted = found["log"], max(found["counted"] or 0, found["own_group"])
    wanted = "none within two hours"
    if log is None:
        if counted:
            said = f"{counted} kills since boot (the kernel's log may not be read, so not when)"
            return warned(said, wanted, "look at `dmesg | grep -i oom` as root")
        return passed("none since boot by the kernel's counters", wanted)
    recent = killed_within(log, LISTED_KILL_SECONDS)
    if not recent:
        return passed(f"none within a day; {counted} since boot" if counted else "none since boot", wanted)
    times = "1 kill" if len(recent) == 1 else f"{len(recent)} kills"
    said = f"{times} within a day, the last {_ago(recent[-1]['ago_seconds'])} ago: {killed(recent[-1]['text'])}"
    if recent[-1]["ago_seconds"] >= RECENT_KILL_SECONDS:
        return passed(said, wanted)  # what is over for hours is told, and no longer warned of at every launch
    return warned(
        said, wanted, f"find out what took the memory; `{context.again('plan')}` shows what this campaign adds per node"
    )


def killed_within(log: Sequence[Mapping[str, Any]], seconds: float) -> list[Mapping[str, Any]]:
    """The newest lines, one for each kill: the kernel writes why it kills on one line, and whom on the next."""
    recent = [line for line in log if line["ago_seconds"] < seconds]
    victims = [line for line in recent if "killed process" in line["text"].lower()]
    return victims or recent


def killed(text: str) -> str:
    """Whom the kernel has killed and what it held; a line of another form whole."""
    victim, held = _VICTIM.search(text), _HELD.search(text)
    if victim is None:
        return text
    memory = f", which held {int(held[1]) / 1024**2:.1f} GiB" if held else ""
    return f"process {victim[1]} ({victim[2]}){memory}"


def _ago(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def clocks(context: Context) -> Saw:
    """Clocks of the nodes against each other: a node behind the others makes fresh reports look stale."""
    if context.runs_here:
        return skipped("one machine has one clock")
    try:
        nodes = cluster_said(context).nodes
    except NoNodes as why:
        return skipped(str(why))
    known = {node.name: (node.clock_offset_seconds, node.clock_error_seconds) for node in nodes}
    return judge_clocks({name: (offset, error) for name, (offset, error) in known.items() if offset is not None})


def judge_clocks(offsets: dict[str, tuple[float, float]]) -> Saw:
    """Offsets of nodes to one asking clock, each with how well it is known, in seconds."""
    wanted = f"within {MOST_SKEW_SECONDS:g} s of each other"
    if len(offsets) < 2:
        return skipped("one node has one clock")
    middle = sorted(offset for offset, _ in offsets.values())[len(offsets) // 2]
    # What the round trip leaves open is never held against a node.
    off = {
        name: offset - middle
        for name, (offset, error) in offsets.items()
        if abs(offset - middle) - error > MOST_SKEW_SECONDS
    }
    if not off:
        widest = max(abs(offset - middle) for offset, _ in offsets.values())
        return passed(f"{len(offsets)} nodes within {widest:.2f} s", wanted)
    told = ", ".join(f"{name} {value:+.1f} s" for name, value in off.items())
    return failed(f"{told} from the other nodes", wanted, f"start chrony or ntpd on {', '.join(off)}")


def _available_gib(found: Any) -> float:
    group = found["cgroup"]
    left = found["available"] if group is None else min(found["available"], group["limit"] - group["used"])
    return float(left) / GIB


def _group_note(found: Any) -> str:
    group = found["cgroup"]
    return " (control group's limit)" if group and group["limit"] - group["used"] < found["available"] else ""


def _holders(found: Any) -> str:
    return ", ".join(f"{one['name']} {one['bytes'] / GIB:.1f} GiB (pid {one['pid']})" for one in found["holders"])


CHECKS = (
    Check("host.memory", ("M8", "S5"), EveryNode(_memory, memory)),
    Check("host.swap", ("M8",), EveryNode(_memory, swap)),
    Check("host.control_group", ("M8",), EveryNode(_memory, control_group)),
    Check("host.shared_memory", (), EveryNode(_memory, shared_memory)),
    Check("host.oom_kills", ("M8",), EveryNode(_kills, oom_kills)),
    Check("host.clocks", ("R4",), clocks),
)
