"""What the installed SGLang's own source says it can do; nothing of it is imported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

_SERVER_ARGUMENTS = "sglang/srt/server_args.py"
_ARGUMENT = "enable_return_routed_experts"


def sglang_files() -> dict[str, Any]:
    """Version, whether its server arguments can be read (null: no), and whether they return routed experts."""
    try:
        found = distribution("sglang")
        text = Path(str(found.locate_file(_SERVER_ARGUMENTS))).read_text(encoding="utf-8", errors="replace")
    except (PackageNotFoundError, OSError):
        return {"version": None, "server_args": None, "routed_experts": False}
    return {"version": found.version, "server_args": True, "routed_experts": _ARGUMENT in text}
