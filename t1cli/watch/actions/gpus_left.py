"""What still holds GPUs after a run was stopped: on every node of its cluster, or on this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from t1cli.errors import T1Error
from t1cli.launch.slime.occupation import open_jobs
from t1cli.run.directory import RunDirectory
from t1cli.run.ray_job import read_ray_job

GpuHolders = list[str] | str
"""Processes that hold a GPU; a sentence where it cannot be asked."""

_PROBE: Final = {"gpus": {"target": "t1cli.preflight.probes.gpus:gpus", "arguments": {}}}
_WAIT_SECONDS: Final = 120.0
_IDLE_MIB: Final = 1024.0


def gpus_left(run: RunDirectory) -> dict[str, GpuHolders]:
    """By node: a Ray job's nodes are asked through one short job, which needs no GPU."""
    job = read_ray_job(run)
    if job is None:
        return {"this machine": gpus_in_use()}
    from t1cli.cluster.node_probes import ask_nodes

    try:
        said = ask_nodes(open_jobs(job), _PROBE, wait_seconds=_WAIT_SECONDS)
    except T1Error as error:
        return {"the cluster": f"not known: {error.message}"}
    return {node.name: _holders(node.answers.get("gpus", {})) for node in said.nodes}


def told(left: Mapping[str, GpuHolders]) -> str:
    """One sentence for the terminal."""
    held = [f"{node}: {', '.join(these)}" for node, these in left.items() if isinstance(these, list) and these]
    unknown = [f"{node} {these}" for node, these in left.items() if isinstance(these, str)]
    if held:
        return "GPUs are still held, " + "; ".join(held)
    return "GPUs: " + "; ".join(unknown) if unknown else f"GPUs of {', '.join(left)} are free"


def gpus_in_use() -> GpuHolders:
    """Processes that hold a GPU of this machine, as nvidia-smi lists them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "not asked: no nvidia-smi on this machine"
    command = [tool, "--query-compute-apps=pid,used_memory", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as failure:
        return f"not known: nvidia-smi failed ({type(failure).__name__})"
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _holders(answer: Mapping[str, Any]) -> GpuHolders:
    found = answer.get("value") or {"problem": answer.get("problem", "no answer")}
    if found["problem"]:
        return f"not known: {found['problem']}"
    processes = [f"{one['name']} (pid {one['pid']})" for one in found["processes"]]
    # A container does not see the processes of others, but their memory.
    full = [
        f"GPU {gpu['index']} {gpu['used_mib']:.0f} MiB" for gpu in found["gpus"] if (gpu["used_mib"] or 0) > _IDLE_MIB
    ]
    return processes or full
