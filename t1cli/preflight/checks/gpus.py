"""gpus: what is there, what it has free, and whether it is well, against the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import AcrossNodes, EveryNode, outliers
from t1cli.preflight.fleet import Probe

XID_MEANINGS = {
    48: "double-bit ECC error",
    63: "row remapping or page retirement recorded",
    64: "row remapping failed",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "the GPU's system processor timed out",
}
"""NVIDIA, "XID Errors": those that hardware causes. Others (13, 31, 43, 45 …) come from programs."""
RECENT_SECONDS = 24 * 3600
MOST_IDLE_MIB = 1024
"""A driver and a display keep a few hundred MiB on an idle GPU."""

_GPUS = Probe("t1cli.preflight.probes.gpus:gpus")


def _gpus(context: Context) -> Probe | Saw:
    if context.spec.hardware.gpus_per_node == 0:
        return skipped("hardware.gpus_per_node is 0")
    return _GPUS


def present(context: Context, found: Any) -> Saw:
    """Number and kind of GPUs against `hardware`."""
    hardware = context.spec.hardware
    wanted = f"{hardware.gpus_per_node} x {hardware.gpu}"
    if found["problem"]:
        fix = "install the NVIDIA driver, and start the container with `--gpus all`"
        return failed(found["problem"], wanted, fix)
    names = [gpu["name"] for gpu in found["gpus"]]
    said = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"
    split = [gpu["index"] for gpu in found["gpus"] if gpu["mig"]]
    if split:
        return failed(f"{said}; GPU {split[0]} is split (MIG)", wanted, "ask its administrator for whole GPUs")
    if len(names) < hardware.gpus_per_node:
        return failed(
            said, wanted, "look at CUDA_VISIBLE_DEVICES and the container's --gpus; correct hardware.gpus_per_node"
        )
    if not _is_of_kind(hardware.gpu, names):
        return warned(said, wanted, "choose the hardware preset of this kind: the plan's memory rests on it")
    return passed(said, wanted)


def memory(context: Context, found: Any) -> Saw:
    """Free memory of each GPU against the plan's peak, and its total against what the plan took for usable."""
    if found["problem"]:
        return skipped(found["problem"])
    usable, peak = context.spec.hardware.usable_gib, _peak(context)
    totals = [gpu["total_mib"] / 1024 for gpu in found["gpus"] if gpu["total_mib"]]
    free = [
        (gpu["total_mib"] - gpu["used_mib"]) / 1024
        for gpu in found["gpus"]
        if gpu["total_mib"] and gpu["used_mib"] is not None
    ]
    if not totals or not free:
        return skipped("the driver does not say how much memory its GPUs have")
    said = f"{min(totals):.1f} GiB a GPU, at least {min(free):.1f} free"
    wanted = f"{usable:g} GiB usable as the plan took it, {peak:.1f} at the predicted peak"
    if min(totals) < usable:
        return failed(said, wanted, f"--set hardware.usable_gib={min(totals):.1f} and plan again")
    if min(free) < peak:
        worst = free.index(min(free))
        return failed(f"{said} (GPU {worst})", wanted, "end what holds that memory; gpus.processes names it")
    return passed(said, wanted)


def health(context: Context, found: Any) -> Saw:
    """ECC errors that were not corrected, rows waiting to be remapped, and the driver's Xid lines of a day."""
    if found["problem"]:
        return skipped(found["problem"])
    bad = [
        f"GPU {gpu['index']}: {said}"
        for gpu in found["gpus"]
        for condition, said in (
            ((gpu["uncorrected"] or 0) > 0, f"{gpu['uncorrected']} uncorrected ECC errors"),
            (gpu["remap_pending"], "rows wait to be remapped"),
            (gpu["remap_failed"], "row remapping failed"),
        )
        if condition
    ]
    recent = [
        xid for xid in found["xids"] or () if xid["ago_seconds"] < RECENT_SECONDS and xid["number"] in XID_MEANINGS
    ]
    bad += [f"{xid['gpu']}: Xid {xid['number']}, {XID_MEANINGS[xid['number']]}" for xid in recent]
    wanted = "no uncorrected errors, nothing to remap, no hardware Xid within a day"
    if bad:
        return failed(
            "; ".join(dict.fromkeys(bad)), wanted, "reset or replace that GPU, and keep its node out until then"
        )
    note = "" if found["xids"] is not None else " (the kernel's log may not be read: Xids unknown)"
    return passed(f"{len(found['gpus'])} GPUs without errors{note}", wanted)


def processes(context: Context, found: Any) -> Saw:
    """Other processes on the GPUs."""
    if found["problem"]:
        return skipped(found["problem"])
    others = found["processes"]
    held = [gpu["index"] for gpu in found["gpus"] if (gpu["used_mib"] or 0) > MOST_IDLE_MIB]
    if not others and not held:
        return passed("no other process", "free GPUs")
    if not others:
        said = f"GPU {held[0]} holds memory of a process that this container does not see"
        return failed(said, "free GPUs", "look on the host: `nvidia-smi`")
    told = ", ".join(f"{one['name']} (pid {one['pid']}, {one['used_mib'] or 0:.0f} MiB)" for one in others[:3])
    return failed(f"{len(others)} other processes: {told}", "free GPUs", "end that run, or wait for it")


def driver(context: Context, found: Mapping[str, Any]) -> Saw:
    """One driver on all nodes."""
    versions = {node: said["gpus"][0]["driver"] for node, said in found.items() if not said["problem"] and said["gpus"]}
    if not versions:
        return skipped("no node has a driver that answers")
    apart = outliers(versions)
    usual = next((version for node, version in versions.items() if node not in apart), "")
    if apart:
        told = ", ".join(f"{node} has {version}" for node, version in apart.items())
        return warned(f"{told}; the others {usual}", "one driver everywhere", "bring those nodes to the same driver")
    return passed(f"driver {usual} on all nodes" if len(versions) > 1 else f"driver {usual}", "one driver everywhere")


def nvlink(context: Context, found: Any) -> Saw:
    """NVLink between the GPUs that one engine or one tensor-parallel group spreads over."""
    if found["problem"]:
        return skipped(found["problem"])
    topology = context.spec.topology
    together = max(topology.gpus_per_engine, topology.tp)
    count = len(found["gpus"])
    wanted = f"NVLink between all GPUs of a node: {together} of them work as one"
    if min(together, count) < 2:
        return passed("no group of GPUs on a node", wanted)
    pairs, every = len(found["nvlink_pairs"]), count * (count - 1) // 2
    if pairs == every:
        return passed(f"all {every} pairs", wanted)
    fix = "look at `nvidia-smi topo -m` and `nvidia-smi nvlink --status`; without NVLink lower topology.tp"
    return warned(f"{pairs} of {every} pairs", wanted, fix)


def toolkit(context: Context, found: Any) -> Saw:
    """The installed torch's CUDA against what the driver can run."""
    gpus, torch = found["gpus"], found["torch"]
    if gpus["problem"]:
        return skipped(gpus["problem"])
    if not torch or not gpus["cuda"]:
        return skipped("no torch for CUDA is installed here, or the driver does not say its CUDA version")
    said, wanted = (
        f"driver for CUDA {gpus['cuda']}, torch built for {torch}",
        "a driver of at least torch's major version",
    )
    # Minor versions are compatible within a major one (NVIDIA, "CUDA Compatibility").
    if int(gpus["cuda"].split(".")[0]) >= int(torch.split(".")[0]):
        return passed(said, wanted)
    return failed(said, wanted, "update the driver, or use the image for this CUDA")


def _toolkit(context: Context) -> Probe | Saw:
    probe = _gpus(context)
    return probe if isinstance(probe, Saw) else Probe("t1cli.preflight.probes.gpu_software:gpu_software")


def _is_of_kind(wanted: str, names: list[str]) -> bool:
    return all(wanted.split()[0].lower() in name.lower() for name in names)


def _peak(context: Context) -> float:
    stages = [stage.peak_gib for role in context.plan.memory.roles.values() for stage in role.stages]
    return max(stages, default=0.0)


CHECKS = (
    Check("gpus.present", ("M1",), EveryNode(_gpus, present)),
    Check("gpus.memory", ("M1",), EveryNode(_gpus, memory)),
    Check("gpus.health", (), EveryNode(_gpus, health)),
    Check("gpus.processes", ("M1",), EveryNode(_gpus, processes)),
    Check("gpus.driver", ("C7",), AcrossNodes(_gpus, driver)),
    Check("gpus.toolkit", ("C7",), EveryNode(_toolkit, toolkit)),
    Check("gpus.nvlink", (), EveryNode(_gpus, nvlink)),
)
