"""Worlds of real processes that talk over gloo: a script starts itself once per rank, and rank 0 reports in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def run_world(script: str, *arguments: str, ranks: int, timeout: float = 600) -> list[dict[str, Any]]:
    """What a world of `ranks` processes of `script` prints. Raises RuntimeError when one fails."""
    with tempfile.TemporaryDirectory(prefix="t1-gloo-") as scratch:
        command = [sys.executable, "-W", "ignore", script, *arguments]
        command += ["--ranks", str(ranks), "--meeting", str(Path(scratch) / "meeting")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}
        processes = [
            subprocess.Popen(
                [*command, "--rank", str(rank)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        try:
            ends = [process.communicate(timeout=timeout) for process in processes]
        finally:
            for process in processes:
                process.kill()
    failed = [error for process, (_, error) in zip(processes, ends, strict=True) if process.returncode]
    if failed:
        raise RuntimeError(f"{len(failed)} of {ranks} ranks failed:\n{failed[0][-4000:]}")
    return [json.loads(line) for line in ends[0][0].splitlines() if line.startswith("{")]


def join(rank: int, ranks: int, meeting: str) -> None:
    """Become one rank of the world, with one thread."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
