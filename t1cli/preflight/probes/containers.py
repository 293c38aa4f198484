"""The container daemon of this machine, where there is one: networks, age, images."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t1cli.preflight.probes.programs import ask_program

_PIDS = (Path("/var/run/docker.pid"), Path("/run/docker.pid"))


def containers(images: Sequence[str] = ()) -> dict[str, Any]:
    """Networks in use, address pools, daemon's age, containers, and which of the named images are missing."""
    info = ask_program(["docker", "info", "--format", "{{json .}}"], seconds=15.0)
    said = _object(info.output)
    if info.problem or not said.get("ServerVersion"):
        return {"problem": info.problem or "no container daemon answers"}
    networks = ask_program(["docker", "network", "ls", "--format", "{{.Driver}}"], seconds=15.0).output.split()
    return {
        "problem": "",
        "version": said["ServerVersion"],
        "networks": networks.count("bridge"),
        "network_places": network_places(said.get("DefaultAddressPools")),
        "containers": said.get("Containers"),
        "age_seconds": _age(),
        "missing_images": [image for image in images if not _has(image)],
    }


def network_places(pools: Any) -> int:
    """Bridge networks that the address pools have room for; the daemon's own default is 31."""
    if not isinstance(pools, list) or not pools:
        return 31
    places = 0
    for pool in pools:
        base, size = str(pool.get("Base", "")), pool.get("Size")
        if "/" in base and isinstance(size, int):
            places += 1 << max(0, size - int(base.rsplit("/", 1)[1]))
    return places


def _age() -> float | None:
    """Of the daemon's process, by its start in /proc."""
    for record in _PIDS:
        try:
            return time.time() - Path("/proc", record.read_text(encoding="ascii").strip()).stat().st_ctime
        except (OSError, ValueError):
            continue
    return None


def _has(image: str) -> bool:
    return not ask_program(["docker", "image", "inspect", "--format", "{{.Id}}", "--", image], seconds=15.0).problem


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
