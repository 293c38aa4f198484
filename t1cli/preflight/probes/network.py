"""Interfaces of a node, its NCCL environment, and whether ports are free."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_VARIABLES = (
    "NCCL_",
    "GLOO_",
    "TP_SOCKET",
    "UCX_",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "SLIME_HOST_IP",
)
_VIRTUAL = ("lo", "docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "tunl", "kube")


def network(root: str = "/") -> dict[str, Any]:
    """Interfaces that are up and lead out of the machine, and the variables that communication libraries read."""
    interfaces = Path(root, "sys/class/net")
    names = sorted(os.listdir(interfaces)) if interfaces.is_dir() else []
    return {
        "all": names,
        "outward": [name for name in names if not name.startswith(_VIRTUAL) and _is_up(interfaces / name)],
        "infiniband": sorted(os.listdir(root + "/sys/class/infiniband"))
        if os.path.isdir(root + "/sys/class/infiniband")
        else [],
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)},
    }


def ports(numbers: Sequence[int], host: str = "") -> dict[str, str]:
    """By port: empty when it can be listened on, else why not. It is bound for an instant and never accepts."""
    return {str(number): _why_taken(host, number) for number in numbers}


def _why_taken(host: str, number: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a connection that ended lately is no reason.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
            probe.listen(1)
        except OSError as error:
            return "in use" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
    return ""


def _is_up(interface: Path) -> bool:
    try:
        return (interface / "operstate").read_text(encoding="ascii").strip() in ("up", "unknown")
    except OSError:
        return False
