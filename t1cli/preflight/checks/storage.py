"""storage: room and kind of the places that a campaign writes to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil

from t1cli.preflight.check import NOT_A_NODE, Check, Context, Saw, failed, passed, skipped, warned

GIB = 1024**3
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


def disk(context: Context) -> Saw:
    """Free space where run directories go against the plan's checkpoints."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    place = _nearest_existing(context.runs_dir)
    free, needed = shutil.disk_usage(place).free / GIB, context.plan.disk.total_gib
    found, wanted = f"{free:.1f} GiB free at {context.runs_dir}", f"{needed:.2f} GiB for the checkpoints kept"
    if free >= needed + 1:
        return passed(found, wanted)
    return failed(found, wanted, "free space, choose another --runs-dir, or lower checkpoint.retention.keep_latest")


def inodes(context: Context) -> Saw:
    """Free inodes: a trial leaves tens of small files."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    stat = os.statvfs(_nearest_existing(context.runs_dir))
    trials = context.spec.rollout.num_rollouts * context.plan.pool.demand
    needed = 20 * trials
    if stat.f_files == 0 or stat.f_favail >= needed:
        return passed(f"{stat.f_favail} inodes free", f"20 per trial x {trials} trials = {needed}")
    return failed(
        f"{stat.f_favail} inodes free", f"20 per trial x {trials} trials = {needed}", "use another --runs-dir"
    )


def writable(context: Context) -> Saw:
    """The run directory's place can be written to."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    place = _nearest_existing(context.runs_dir)
    if os.access(place, os.W_OK):
        return passed(f"{place} is writable", "a writable place for run directories")
    return failed(f"{place} is not writable", "a writable place for run directories", "choose another --runs-dir")


def file_system(context: Context) -> Saw:
    """Checkpoints on a memory file system vanish with the machine and use its RAM."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    place = _nearest_existing(context.runs_dir).resolve()
    kind = _file_system_of(place)
    if kind in MEMORY_FILE_SYSTEMS:
        return warned(f"{place} is on {kind}", "a disk for checkpoints", "choose another --runs-dir")
    return passed(f"{place} is on {kind}", "a disk for checkpoints")


def role_directories(context: Context) -> Saw:
    """Actor and critic must never share a checkpoint directory: the critic saves last and wins."""
    checkpoint = context.spec.checkpoint
    if context.spec.algorithm.kind != "ppo":
        return skipped("no critic under " + context.spec.algorithm.kind)
    actor, critic = checkpoint.actor_dir, checkpoint.critic_dir
    if actor is not None and critic is not None and _same(actor, critic):
        where = context.loaded.where("checkpoint.critic_dir")
        return failed(
            f"both roles save to {actor} ({where})", "two directories", "set checkpoint.critic_dir to its own directory"
        )
    return passed("actor and critic save to different directories", "two directories")


def _same(first: str, second: str) -> bool:
    return Path(first).resolve() == Path(second).resolve()


def _nearest_existing(path: Path) -> Path:
    for candidate in (path, *path.absolute().parents):
        if candidate.exists():
            return candidate
    return Path("/")


def _file_system_of(path: Path) -> str:
    mounts = [(Path(part.mountpoint), part.fstype) for part in psutil.disk_partitions(all=True)]
    holding = [(len(mount.parts), kind) for mount, kind in mounts if mount == path or mount in path.parents]
    return max(holding, default=(0, "unknown"))[1]


CHECKS = (
    Check("storage.disk", ("M10",), disk),
    Check("storage.inodes", (), inodes),
    Check("storage.writable", (), writable),
    Check("storage.file_system", (), file_system),
    Check("storage.role_directories", ("C2",), role_directories),
)
