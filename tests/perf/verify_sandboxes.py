"""`make verify-sandboxes`: what sandboxes, pool and checks of tasks do at full size. Exit 1 when a promise is broken.

512 trials at once in real sandboxes; 500 generated tasks checked, against the same runs in a plain loop; each fault at
each moment; an evaluation beside training. One line per promise.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.perf.many_tasks import many_tasks  # noqa: E402
from tests.perf.many_trials import many_trials  # noqa: E402
from tests.perf.promises import Promises  # noqa: E402

SUITES = ("tests/unit/terminal/pool/test_fault_moments.py", "tests/perf/test_evaluation_beside_training.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--only", choices=("trials", "tasks", "suites"), action="append")
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    promises, began, parts = Promises(), time.monotonic(), given.only or ("trials", "tasks", "suites")
    with tempfile.TemporaryDirectory(prefix="t1-verify-") as scratch:
        os.mkdir(f"{scratch}/tmp")
        tempfile.tempdir = f"{scratch}/tmp"
        if "trials" in parts:
            many_trials(Path(scratch), given.trials, promises)
        if "tasks" in parts:
            many_tasks(Path(scratch), given.tasks, promises)
        if "suites" in parts:
            suites(promises)
    print(f"{promises.broken} promises broken, {time.monotonic() - began:.0f} s")
    return 1 if promises.broken else 0


def suites(promises: Promises) -> None:
    """Every cell of the table of faults, and the evaluation; their output is printed as it comes."""
    for suite in SUITES:
        argv = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-m", "slow or not slow", "-v", "-s", suite]
        code = subprocess.run(argv, cwd=ROOT, check=False).returncode
        promises.check(suite, f"exit {code}", holds=code == 0)


if __name__ == "__main__":
    sys.exit(main())
