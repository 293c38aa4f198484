"""storage: room and kind of the places that a campaign writes to, on every node."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_model.units import GIB
from t1cli.preflight.check import Check, Context, Saw, failed, passed, warned
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe

MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
FILES_PER_TRIAL = 20
SPARE_GIB = 1.0

CHECKPOINTS, RUNS, SCRATCH = "checkpoints", "runs", "sandboxes"


def _places(context: Context) -> Probe:
    return Probe("t1cli.preflight.probes.places:places", {"paths": {name: str(path) for name, path in _paths(context)}})


def disk(context: Context, found: Any) -> Saw:
    """Free space where checkpoints go against the plan's saves; where sandboxes live, against theirs."""
    needs = {RUNS: SPARE_GIB, SCRATCH: _scratch_gib(context)}
    where = CHECKPOINTS if CHECKPOINTS in found else RUNS
    needs[where] = needs.get(where, 0.0) + context.plan.disk.total_gib
    wanted = f"{context.plan.disk.total_gib:.2f} GiB for the checkpoints kept, 1 GiB for the rest of a run"
    short = [
        f"{name}: {place['free'] / GIB:.1f} GiB free at {place['directory']}, {_needed(place, needs, found):.1f} needed"
        for name, place in found.items()
        if place["free"] / GIB < _needed(place, needs, found)
    ]
    if not short:
        return passed(f"{found[where]['free'] / GIB:.1f} GiB free at {found[where]['directory']}", wanted)
    return failed("; ".join(short), wanted, "free space, choose another --runs-dir, or lower checkpoint.retention")


def inodes(context: Context, found: Any) -> Saw:
    """Free inodes: a trial leaves tens of small files."""
    trials = context.spec.rollout.num_rollouts * context.plan.pool.demand
    needed, place = FILES_PER_TRIAL * trials, found[RUNS]
    wanted = f"{FILES_PER_TRIAL} per trial x {trials} trials = {needed}"
    if place["inodes_free"] is None:
        return passed("this file system makes inodes as it needs them", wanted)
    said = f"{place['inodes_free']} inodes free"
    return passed(said, wanted) if place["inodes_free"] >= needed else failed(said, wanted, "use another --runs-dir")


def writable(context: Context, found: Any) -> Saw:
    """A file can really be written where runs and checkpoints go: a full disk says so before a save does."""
    bad = {name: place for name, place in found.items() if place["problem"]}
    if not bad:
        return passed(", ".join(f"{place['directory']}" for place in found.values()) + " written to", "writable places")
    told = "; ".join(f"{name}: {place['directory']}: {place['problem']}" for name, place in bad.items())
    return failed(told, "places that can be written to", "free space or rights there, or choose another --runs-dir")


def file_system(context: Context, found: Any) -> Saw:
    """Checkpoints on a memory file system vanish with the machine; without file locks two launches share a run."""
    kinds = {name: place["kind"] for name, place in found.items() if name != SCRATCH}
    said = ", ".join(f"{name} on {kind}" for name, kind in kinds.items())
    wanted = "a disk, with file locks"
    in_memory = [name for name, kind in kinds.items() if kind in MEMORY_FILE_SYSTEMS]
    if in_memory:
        judge = failed if context.on_slime else warned
        return judge(said, wanted, f"put {' and '.join(in_memory)} on a disk: --runs-dir or checkpoint.actor_dir")
    unlocked = [place["directory"] for name, place in found.items() if name != SCRATCH and place["locks"] is False]
    if unlocked:
        fix = "mount it with locks (NFS 4, or without nolock), or choose another --runs-dir"
        return failed(f"no file locks at {', '.join(unlocked)} ({said})", wanted, fix)
    return passed(said, wanted)


def _paths(context: Context) -> Iterator[tuple[str, Path]]:
    checkpoint = context.spec.checkpoint
    yield RUNS, context.runs_dir
    if checkpoint.actor_dir:
        named = Path(checkpoint.actor_dir)
        yield CHECKPOINTS, context.loaded.resolve_path(checkpoint.actor_dir) if context.runs_here else named
    if context.spec.sandbox.kind == "local":
        yield SCRATCH, Path(tempfile.gettempdir())


def _scratch_gib(context: Context) -> float:
    """Local sandboxes keep their files in memory; what goes to the temporary directory is their bookkeeping."""
    sandbox = context.spec.sandbox
    if sandbox.kind == "local" and sandbox.backend == "process":
        return context.trials_at_once * sandbox.limits.disk_mib / 1024
    return 0.1


def _needed(place: Any, needs: dict[str, float], found: Any) -> float:
    """What all places on this one's mount need together."""
    return sum(need for name, need in needs.items() if name in found and found[name]["mount"] == place["mount"])


CHECKS = (
    Check("storage.disk", ("M10", "S5"), EveryNode(_places, disk)),
    Check("storage.inodes", (), EveryNode(_places, inodes)),
    Check("storage.writable", ("M10",), EveryNode(_places, writable)),
    Check("storage.file_system", (), EveryNode(_places, file_system)),
)
