"""Kills a preflight of the quickstart at many moments and looks for anything that it left behind.

    python tests/perf/kill_preflight.py [--kills N] [--seed S] [--sampling]

Every kill is a SIGKILL of the whole process group at a random moment, in a directory of its own; afterwards no process
may carry that directory in its environment or have a file below it open, and the directory must be empty again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "from t1cli.cli.app import main; main()"
GONE_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sampling", action="store_true", help="sample tasks too, which takes longer")
    asked = parser.parse_args()
    rng, skip = random.Random(asked.seed), [] if asked.sampling else ["--skip", "tasks.ctrf_coverage"]
    whole = killed_after(None, skip)
    print(f"an undisturbed preflight took {whole:.1f} s")
    left = 0
    for number in range(asked.kills):
        moment = rng.uniform(0.0, whole)
        leftovers = killed_after(moment, skip)
        left += bool(leftovers)
        print(f"{number + 1}/{asked.kills}: killed after {moment:.2f} s: {leftovers or 'nothing left'}", flush=True)
    print(f"{left} of {asked.kills} kills left something")
    return int(left > 0)


def killed_after(seconds: float | None, skip: list[str]) -> float | str:
    """Run one preflight. Null: to its end, and how long it took; else what was left after the kill."""
    with tempfile.TemporaryDirectory(prefix="t1-kill-") as place:
        marks = {"TMPDIR": f"{place}/tmp", "HOME": f"{place}/home", "T1_KILL_TEST": place}
        for name in ("tmp", "home", "runs"):
            Path(place, name).mkdir()
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            "preflight",
            "quickstart",
            *skip,
            "--runs-dir",
            f"{place}/runs",
            "--json",
        ]
        started = time.monotonic()
        run = subprocess.Popen(
            command,
            env={**os.environ, **marks},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if seconds is None:
            run.wait()
            return time.monotonic() - started
        try:
            run.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        return what_is_left(place)


def what_is_left(place: str) -> str:
    """Processes and files that belong to a killed run, once they have had time to end."""
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        files = [str(path) for name in ("tmp", "home") for path in Path(place, name).iterdir()]
        processes = [pid for pid in os.listdir("/proc") if pid.isdigit() and belongs(pid, place)]
        if not files and not processes:
            return ""
        if time.monotonic() > deadline:
            return f"files {files}, processes {processes}"
        time.sleep(0.1)


def belongs(pid: str, place: str) -> bool:
    """Whether a process was started by the run, by its environment or an open file."""
    try:
        if f"T1_KILL_TEST={place}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return True
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(place) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
