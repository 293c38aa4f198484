"""What a command costs before it answers, against a bare interpreter that imports the same three libraries.

    python tests/perf/start_up.py [--repeats N]

The commands take turns with the bare imports, so that a busy moment meets all of them alike; medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

T1 = [str(Path(sys.executable).with_name("t1"))]
BARE = [sys.executable, "-c", "import typer, pydantic, rich.console"]
COMMANDS = {
    "t1 --help": [*T1, "--help"],
    "t1 plan quickstart": [*T1, "plan", "quickstart"],
    "t1 plan t1-strategy15k": [*T1, "plan", "t1-strategy15k"],
}


def seconds(command: list[str]) -> float:
    """Wall seconds of one run, which must answer yes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    taken: dict[str, list[float]] = {"bare imports": [], **{name: [] for name in COMMANDS}}
    for _ in range(repeats):
        for name, command in {"bare imports": BARE, **COMMANDS}.items():
            taken[name].append(seconds(command))
    bare = statistics.median(taken["bare imports"])
    for name, found in taken.items():
        print(f"{name:<24} {statistics.median(found):6.2f} s  {statistics.median(found) / bare:5.2f}x the bare imports")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
