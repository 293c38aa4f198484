"""File-descriptor limits of the processes that a rollout leans on, as they run (catalogue S8).

320 trials once pushed a head's raylet past its soft limit of 1,024: collection stayed at 0, without an error. The
limit that counts is the running process's, not that of a new shell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

Process = Literal["raylet", "gcs_server", "driver"]
_SESSION: Final = re.compile(rb"session_\d{4}-[\w-]+")
_UNLIMITED: Final = 2**63 - 1
_LINE: Final = re.compile(r"^Max open files\s+(\S+)\s+(\S+)", re.MULTILINE)
_PER_TRIAL: Final = 6
"""Descriptors that one live trial holds at most: engine and sandbox connections, its files and pipes."""
_BASE: Final = 1024
"""What Ray's own daemons hold before the first trial, with room."""


@dataclass(frozen=True)
class OpenFiles:
    """One process's limit and use."""

    node: str
    process: Process
    pid: int
    soft: int
    hard: int
    open: int

    def to_json(self) -> dict[str, Any]:
        """As it travels from a node."""
        return dict(vars(self))


def needed_open_files(trials: int) -> int:
    """Descriptors that a process carrying this many trials at once may need."""
    return _BASE + _PER_TRIAL * trials


def too_low(found: Sequence[OpenFiles], trials: int) -> tuple[OpenFiles, ...]:
    """The processes whose soft limit is below what these trials need."""
    return tuple(process for process in found if process.soft < needed_open_files(trials))


def how_to_raise(process: OpenFiles, trials: int) -> str:
    """The commands, for people to run: t1 restarts nobody's Ray."""
    wanted = 1 << (needed_open_files(trials) - 1).bit_length()
    where = f"on {process.node}"
    if process.hard < wanted:
        return (
            f"{where} the hard limit is {process.hard}: raise it first (LimitNOFILE= of the service, `nofile` in "
            f"limits.conf, or `--ulimit nofile={wanted}:{wanted}` of the container), then start that node's Ray anew"
        )
    return f"{where}: `ulimit -n {wanted}` in the shell that runs `ray start`, and start that node's Ray anew from it"


def read_open_files(pid: int, process: Process, node: str, proc: Path = Path("/proc")) -> OpenFiles | None:
    """Of one process of this machine; None when it is gone or may not be read."""
    try:
        limits = _LINE.search((proc / str(pid) / "limits").read_text(encoding="utf-8"))
        in_use = len(os.listdir(proc / str(pid) / "fd"))
    except OSError:
        return None
    if limits is None:
        return None
    return OpenFiles(node, process, pid, _number(limits[1]), _number(limits[2]), in_use)


def here(node: str, *, raylet_pid: int, proc: Path = Path("/proc")) -> tuple[OpenFiles, ...]:
    """This node's raylet, and the GCS where it runs here; read inside a Ray worker, whose parent is the raylet."""
    pids: dict[int, Process] = {raylet_pid: "raylet"}
    mine = _session(proc / str(raylet_pid))
    for entry in proc.iterdir():
        # Another Ray may run on the machine; its session has another name.
        if entry.name.isdigit() and _program(entry) == "gcs_server" and _session(entry) == mine:
            pids[int(entry.name)] = "gcs_server"
    found = [read_open_files(pid, process, node, proc) for pid, process in pids.items()]
    return tuple(limits for limits in found if limits is not None)


def of_every_node() -> tuple[OpenFiles, ...]:
    """Raylet and GCS of every living node, and this driver. Must run inside a Ray driver of that cluster."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(num_cpus=0)(_on_a_node)
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    asked = [
        remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)).remote(
            node["NodeManagerHostname"]
        )
        for node in nodes
    ]
    driver = read_open_files(os.getpid(), "driver", os.uname().nodename)
    answers = [OpenFiles(**one) for answer in ray.get(asked, timeout=120) for one in answer]
    # Two nodes of one machine see the same head process.
    every = {(one.node, one.pid): one for one in (*answers, *((driver,) if driver else ()))}
    return tuple(every.values())


def from_json(values: Sequence[Mapping[str, Any]]) -> tuple[OpenFiles, ...]:
    """Back from `to_json`."""
    return tuple(OpenFiles(**value) for value in values)


def _on_a_node(node: str) -> list[dict[str, Any]]:
    return [found.to_json() for found in here(node, raylet_pid=os.getppid())]


def _program(entry: Path) -> str:
    try:
        return os.path.basename((entry / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace"))
    except OSError:
        return ""


def _session(entry: Path) -> str:
    """Ray's session name in a process's command line; empty when there is none."""
    try:
        found = _SESSION.search((entry / "cmdline").read_bytes())
    except OSError:
        return ""
    return found[0].decode() if found else ""


def _number(text: str) -> int:
    return _UNLIMITED if text == "unlimited" else int(text)
