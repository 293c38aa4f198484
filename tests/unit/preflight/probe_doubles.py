"""A guarded probe that does what a test asks of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def work(request: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    (directory / "made").write_text("something")
    if request["do"] == "raise":
        raise ValueError("asked to")
    if request["do"] == "die":
        os._exit(3)
    if request["do"] == "spawn":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (directory / "child").write_text(str(child.pid))
        Path(request["note"]).write_text(f"{directory} {child.pid}")
    if request["do"] in ("hang", "spawn"):
        time.sleep(600)
    Path(request["note"]).write_text(str(directory))
    return {"worked": True}


def clean_up(request: Mapping[str, Any], directory: Path) -> None:
    """What the worker has on record is ended, as sandboxes are."""
    if (directory / "child").exists():
        os.kill(int((directory / "child").read_text()), 9)
