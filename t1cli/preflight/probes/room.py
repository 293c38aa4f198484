"""Room for sandboxes on a node: memory that is available, and disk where temporary files go."""

from __future__ import annotations

import shutil
import tempfile

from t1cli.preflight.probes.memory import memory


def room() -> dict[str, int]:
    """Bytes of both, the control group's limit included."""
    found = memory()
    group = found["cgroup"]
    left = found["available"] if group is None else min(found["available"], group["limit"] - group["used"])
    return {"available": int(left), "scratch": shutil.disk_usage(tempfile.gettempdir()).free}
