"""Part of `make verify-sandboxes`: the promises of every sandbox, kept by Harbor itself on a Python that it supports.

T1_HARBOR_PYTHON names an interpreter with harbor, pytest and pytest-json-ctrf; else one is made from a Python of 3.12
or newer on PATH; else this says that it is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from t1cli.terminal.sandbox.harbor.interpreter import TESTED, ask_versions  # noqa: E402

PLACE = ROOT / ".venv" / "harbor"
NEEDS = (f"harbor=={TESTED}", "pytest==8.4.1", "pytest-json-ctrf==0.6.1")
PYTHONS = ("python3.12", "python3.13", "python3.14")
SUITES = (
    "tests/contract/test_sandbox_backends.py",
    "tests/contract/test_harbor_faults.py",
    "tests/unit/terminal/rollout/test_harbor_trials.py",
    "tests/unit/terminal/harness/test_terminus.py",
)


def main() -> int:
    """Exit 1 when a promise is broken."""
    python = os.environ.get("T1_HARBOR_PYTHON") or made()
    if not python:
        print(f"Harbor skipped: none of {', '.join(PYTHONS)} on PATH; T1_HARBOR_PYTHON names another")
        return 0
    found = ask_versions(python)
    print(f"Harbor {found['harbor']} on Python {found['python']} at {python}, tested with {TESTED}")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-m",
        "slow or not slow",
        "-k",
        "not process and not pool",
    ]
    return subprocess.run(
        [*argv, "-v", "-rs", *SUITES], cwd=ROOT, env=os.environ | {"T1_HARBOR_PYTHON": python}, check=False
    ).returncode


def made() -> str:
    """An interpreter of our own with what is needed; empty where no Python is new enough."""
    python = PLACE / "bin" / "python"
    base = next((found for name in PYTHONS if (found := shutil.which(name)) and works(found)), None)
    if not python.exists():
        if base is None:
            return ""
        subprocess.run([base, "-m", "venv", str(PLACE)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *NEEDS], check=True)
    return str(python)


def works(python: str) -> bool:
    """Whether a name on PATH is a Python, and no shim for one that is not chosen."""
    return ask_versions(python)["problem"] is None


if __name__ == "__main__":
    sys.exit(main())
