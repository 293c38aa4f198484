"""What a preflight costs: its wall time against its slowest check and its CPU time over the cores, and CPU by check.

    python tests/perf/measure_preflight.py [SPEC] [--repeats N]

Every figure of one line comes from one run. Task sampling is left out. Each check is also asked alone, in this process
and the children it waits for, so that its CPU seconds are its own. Run it on an idle machine: the ratio compares wall
time with the CPU time of this process tree, and somebody else's load counts as wall time only.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

from t1cli.plan.build import build_plan
from t1cli.preflight.check import Check, Context
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.preflight.fleet import ThisMachine
from t1cli.preflight.runner import run_checks
from t1cli.spec.load import load_experiment

SAMPLING = "tasks.ctrf_coverage"
SANDBOX = "sandboxes.probe"
MOST_RATIO, MOST_CPU_SECONDS = 1.2, 2.0


def cpu_seconds() -> float:
    """User and system seconds of this process and the children it has waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def context_of(spec: str) -> Context:
    loaded = load_experiment(Path(spec))
    return Context(loaded, build_plan(loaded), Path(tempfile.gettempdir()) / "t1-measure-runs", ThisMachine())


def whole(spec: str, checks: list[Check]) -> tuple[float, float, float]:
    """Wall seconds, the slowest check's, and CPU seconds over the cores, of one preflight."""
    context = context_of(spec)
    cpu, started = cpu_seconds(), time.perf_counter()
    report = run_checks(checks, context)
    wall = time.perf_counter() - started
    slowest = max(check.seconds for check in report.checks)
    return wall, slowest, (cpu_seconds() - cpu) / (os.cpu_count() or 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", nargs="?", default="quickstart")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    checks = [check for check in ALL_CHECKS if check.id != SAMPLING]
    whole(asked.spec, checks)  # imports are paid once, and not by a check
    ratios = []
    for _ in range(asked.repeats):
        wall, slowest, spread = whole(asked.spec, checks)
        ratios.append(wall / max(slowest, spread))
        print(f"wall {wall:.2f} s, slowest check {slowest:.2f} s, CPU / cores {spread:.2f} s: {ratios[-1]:.2f}x")
    costs = {check.id: alone(asked.spec, check) for check in checks}
    dearest = sorted(costs.items(), key=lambda cost: -cost[1])
    print("CPU seconds alone: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in dearest[:8]))
    dear = [name for name, seconds in costs.items() if seconds > MOST_CPU_SECONDS and name != SANDBOX]
    middle, named = sorted(ratios)[len(ratios) // 2], ", ".join(dear) or "none"
    print(f"ratio {middle:.2f} (wanted at most {MOST_RATIO}); above {MOST_CPU_SECONDS:g} s of CPU: {named}")
    return int(middle > MOST_RATIO or bool(dear))


def alone(spec: str, check: Check) -> float:
    """CPU seconds of one check in a fresh context, without what it needs."""
    context = context_of(spec)
    before = cpu_seconds()
    run_checks([check], context)
    return cpu_seconds() - before


if __name__ == "__main__":
    raise SystemExit(main())
