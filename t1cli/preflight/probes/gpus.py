"""What the driver says about the GPUs of a node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from t1cli.preflight.probes.kernel_log import kernel_log
from t1cli.preflight.probes.programs import ask_program

_FIELDS = (
    "index",
    "name",
    "memory.total",
    "memory.used",
    "driver_version",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "mig.mode.current",
)
_XID = re.compile(r"Xid \((PCI:[0-9a-fA-F:.]+)\): (\d+)")


def gpus() -> dict[str, Any]:
    """Per GPU: kind, memory in MiB, ECC and remapping state; the driver's CUDA, processes, NVLink pairs, Xids."""
    asked = ask_program(
        ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"], seconds=20.0
    )
    if asked.problem:
        return {"problem": asked.problem}
    return {
        "problem": "",
        "gpus": [gpu for line in asked.output.splitlines() if (gpu := _gpu(line)) is not None],
        "cuda": _cuda(ask_program(["nvidia-smi"], seconds=20.0).output),
        "processes": _processes(),
        "nvlink_pairs": nvlink_pairs(ask_program(["nvidia-smi", "topo", "-m"], seconds=20.0).output),
        "xids": _xids(),
    }


def nvlink_pairs(topology: str) -> list[list[int]]:
    """Pairs of GPUs that `nvidia-smi topo -m` joins by NVLink."""
    rows = [line.split() for line in topology.splitlines() if line.startswith("GPU")]
    pairs = []
    for row in rows:
        number = row[0].removeprefix("GPU")
        for column, cell in enumerate(row[1 : len(rows) + 1]):
            if number.isdigit() and cell.startswith("NV") and int(number) < column:
                pairs.append([int(number), column])
    return pairs


def _gpu(line: str) -> dict[str, Any] | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(_FIELDS):
        return None
    return {
        "index": int(cells[0]),
        "name": cells[1],
        "total_mib": _number(cells[2]),
        "used_mib": _number(cells[3]),
        "driver": cells[4],
        "uncorrected": _number(cells[5]),
        "remap_pending": cells[6].lower() in ("yes", "1"),
        "remap_failed": cells[7].lower() in ("yes", "1"),
        "mig": cells[8].lower() == "enabled",
    }


def _processes() -> list[dict[str, Any]]:
    """Who computes on a GPU, by pid and program, whoever's it is."""
    said = ask_program(
        ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"],
        seconds=20.0,
    )
    rows = [[cell.strip() for cell in line.split(",")] for line in said.output.splitlines()]
    return [
        {"pid": int(row[0]), "name": Path(row[1]).name, "used_mib": _number(row[2])}
        for row in rows
        if len(row) == 3 and row[0].isdigit()
    ]


def _cuda(text: str) -> str:
    found = re.search(r"CUDA Version:\s*([\d.]+)", text)
    return found[1] if found else ""


def _xids() -> list[dict[str, Any]] | None:
    lines = kernel_log(("NVRM: Xid",))
    if lines is None:
        return None
    found = [(line["ago_seconds"], _XID.search(line["text"])) for line in lines]
    return [{"ago_seconds": ago, "gpu": xid[1], "number": int(xid[2])} for ago, xid in found if xid]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
