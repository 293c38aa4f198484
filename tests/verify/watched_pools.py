"""Three short real campaigns under one watch: a pool that answers 429, one that queues, and enough sandboxes.

`python tests/verify/watched_pools.py` prints per campaign what the watch said, and exits 1 unless the starved one is
diagnosed within ten rollouts and stopped after a save, the queued one is called slow because of its queue and left
alone, and the healthy one is left alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
T1 = str(Path(sys.executable).with_name("t1"))
STARVED, QUEUED = "environment pool starved", "rollouts slow because of the pool queue"
TRIALS = 24
CAPACITY = TRIALS // 4
"""A quarter of the demand."""
WINDOW_SCALE = 0.2
RULE = {
    "name": "starved-for-good",
    "metric": "terminal/non_trainable_ratio",
    "window": 10,
    "aggregate": "min",
    "above": 0.5,
    "severity": "stop",
    "second_sign": [{"metric": "watch/failures_per_finished", "window": 10, "above": 1.0}],
    "says": "more than half of the samples were lost, and more trials fail than finish",
    "advice": "compare the pool's capacity with the demand",
}


@dataclass(frozen=True)
class Arm:
    """One campaign."""

    name: str
    sandbox: dict[str, Any]
    rollouts: int
    server: tuple[str, ...] | None = None
    """Options of the pool server; None: sandboxes of this machine."""
    expected: frozenset[str] = frozenset()
    stopped: bool = False
    accepted: tuple[str, ...] = ()
    """Findings that the launch goes on in spite of."""


@dataclass
class Seen:
    """What the watch and the run said."""

    diagnoses: dict[str, int] = field(default_factory=dict)
    """First rollout of each of the two."""
    outcome: str = ""
    last_rollout: int = -1
    stop_rollout: int | None = None
    lines: list[str] = field(default_factory=list)


def pooled(wait_seconds: float, *, queueing: bool) -> dict[str, Any]:
    # What the spec believes; the server holds a quarter of it, as preflight says.
    limits = {"max_tasks": TRIALS, "max_runs_per_task": 1}
    return {"kind": "pool", **limits, "queueing": queueing, "wait_seconds": wait_seconds}


ARMS = (
    Arm("healthy", {"kind": "local", "capacity": TRIALS}, rollouts=8),
    Arm(
        "starved",
        pooled(1.0, queueing=False),
        rollouts=14,
        server=("--max-waiting", "1"),
        expected=frozenset({STARVED}),
        stopped=True,
        accepted=("sandboxes.servers",),
    ),
    Arm(
        "queued",
        pooled(600.0, queueing=True),
        rollouts=8,
        server=(),
        expected=frozenset({QUEUED}),
        accepted=("sandboxes.servers",),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the arms one after the other and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arm", action="append", choices=[arm.name for arm in ARMS], default=[])
    options = parser.parse_args(arguments)
    good = True
    for arm in ARMS:
        if options.arm and arm.name not in options.arm:
            continue
        with tempfile.TemporaryDirectory(prefix="t1-pools-") as place:
            seen = run(arm, Path(place))
        wrong = faults(arm, seen)
        good = good and not wrong
        told = ", ".join(f"{name} from rollout {first}" for name, first in seen.diagnoses.items()) or "no diagnosis"
        print(f"{arm.name}: {told}; {seen.outcome} after rollout {seen.last_rollout}; ", end="")
        print("as it should" if not wrong else "WRONG: " + "; ".join(wrong), flush=True)
        if wrong:
            print("\n".join(seen.lines[-40:]))
    return 0 if good else 1


def faults(arm: Arm, seen: Seen) -> list[str]:
    """What differs from what was asked."""
    wrong = []
    if set(seen.diagnoses) != set(arm.expected):
        wrong.append(f"diagnosed {sorted(seen.diagnoses)}, wanted {sorted(arm.expected)}")
    late = [name for name, first in seen.diagnoses.items() if first > 10]
    wrong += [f"{name} only at rollout {seen.diagnoses[name]}" for name in late]
    if (seen.outcome == "stopped") != arm.stopped:
        wrong.append(f"the run ended as {seen.outcome!r}")
    if arm.stopped and seen.stop_rollout is None:
        wrong.append("stopped without a save")
    return wrong


def run(arm: Arm, place: Path) -> Seen:
    """Launch one campaign, watch it to its end, read the watch's summary."""
    environment = {**os.environ, "T1_RUNS_DIR": str(place / "runs")}
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(served(arm.server, place))] if arm.server is not None else []
        spec = write_spec(arm, place, urls)
        accepted = [part for finding in arm.accepted for part in ("--accept", finding)]
        launch = [T1, "launch", str(spec), "--yes", "--detach", *accepted]
        text = subprocess.run(launch, env=environment, capture_output=True, text=True)
        if text.returncode != 0:
            raise SystemExit(f"{arm.name}: launch answered {text.returncode}\n{text.stdout}\n{text.stderr}")
        watch = [T1, "watch", arm.name, "--allow-stop", "--grace", "0"]
        lines = subprocess.run(watch, env=environment, capture_output=True, text=True).stdout.splitlines()
        return read_back(arm, place / "runs", environment, lines)


def read_back(arm: Arm, runs: Path, environment: dict[str, str], lines: list[str]) -> Seen:
    """Diagnoses by replay; outcome and saves from the run's own record."""
    replay = [T1, "watch", arm.name, "--replay", "--json"]
    told = json.loads(subprocess.run(replay, env=environment, capture_output=True, text=True).stdout)
    seen = Seen(lines=lines)
    for diagnosis in told["diagnoses"]:
        if diagnosis["name"] in (STARVED, QUEUED):
            seen.diagnoses.setdefault(diagnosis["name"], int(diagnosis["from"]))
    for text in (runs / arm.name / "attempt_1" / "events.jsonl").read_text().splitlines():
        event = json.loads(text)
        if event["event"] == "rollout_ended":
            seen.last_rollout = int(event["rollout"])
        if event["event"] == "checkpoint":
            seen.stop_rollout = seen.last_rollout
        if event["event"] == "ended":
            seen.outcome = str(event["outcome"])
    return seen


def write_spec(arm: Arm, place: Path, urls: list[str]) -> Path:
    """The quickstart with fewer trials and the arm's sandboxes."""
    quickstart = ROOT / "experiments" / "quickstart" / "experiment.yaml"
    values = yaml.safe_load(quickstart.read_text(encoding="utf-8"))
    values["presets"] = [name for name in values["presets"] if not name.startswith("sandbox/")]
    values["name"] = arm.name
    values["rollout"] |= {"num_rollouts": arm.rollouts, "batch_size": TRIALS, "trial_wall_seconds": 30}
    values["tasks"] = {"path": str(quickstart.parent / "tasks")}
    values["engine"] = {"kind": "embedded", "max_batch": TRIALS}
    values["sandbox"] = arm.sandbox | ({"urls": urls} if urls else {})
    values["checkpoint"] = {**values["checkpoint"], "every_rollouts": 2}
    watch = {"packs": ["slime-ppo", "terminal", "invariants"], "rules": [RULE]}
    values["watch"] = {**watch, "window_scale": WINDOW_SCALE, "protect_first_rollouts": 2}
    path = place / "experiment.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


@contextlib.contextmanager
def served(options: tuple[str, ...], place: Path) -> Iterator[str]:
    """A pool server of this machine; yields its URL and ends it."""
    command = [T1, "pool", "serve", "--directory", str(place / "pool"), "--port", "0", "--drain-seconds", "0"]
    limits = ["--max-tasks", str(CAPACITY), "--max-runs-per-task", "1", *options]
    process = subprocess.Popen([*command, *limits], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        ready = json.loads(process.stdout.readline())
        yield f"http://{ready['host']}:{ready['port']}"
    finally:
        process.terminate()
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
