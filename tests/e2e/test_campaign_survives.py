"""A short real campaign with generation one step ahead: interrupted, killed outright during a rollout, resumed to its
end; nothing of it remains and no weight version is out of place."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.run_layout import unlisted

ROOT = Path(__file__).parents[2]
T1 = Path(sys.executable).parent / "t1"
ROLLOUTS = 4
SETTINGS = (
    f"rollout.num_rollouts={ROLLOUTS}",
    "rollout.batch_size=4",
    "rollout.max_turns=4",
    "rollout.pipeline=one_step",
    "rollout.max_staleness=1",
    "checkpoint.every_rollouts=1",
    "engine.warm_start=random",
    "algorithm.critic.critic_only_steps=1",
)
Identity = tuple[int, float]


@pytest.fixture
def runs() -> Iterator[Path]:
    """A short directory, since pytest's own are long enough to break Unix sockets."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="t1e2e-") as directory:
        yield Path(directory)


def launch(runs: Path, *, resume: bool) -> subprocess.Popen[bytes]:
    command = [str(T1), "launch", str(ROOT / "experiments/quickstart"), "--yes", "--runs-dir", str(runs)]
    command += [part for setting in SETTINGS for part in ("--set", setting)] + (["--resume"] if resume else [])
    with (runs / "output.txt").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)


def wait_for(condition: Callable[[], Any], what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Poll until the condition holds; a campaign that ends first, or three minutes, is a failure."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        assert process is None or process.poll() is None, f"the campaign ended before {what}"
        time.sleep(0.05)


def events(run: Path) -> list[dict[str, Any]]:
    path = run / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def count(run: Path, event: str, **fields: object) -> int:
    wanted = {"event": event, **fields}.items()
    return sum(wanted <= entry.items() for entry in events(run))


def family(process: subprocess.Popen[bytes]) -> set[Identity]:
    """The process and all its living descendants, with start times."""
    members = set()
    root = psutil.Process(process.pid)
    for member in (root, *root.children(recursive=True)):
        try:
            members.add((member.pid, member.create_time()))
        except psutil.NoSuchProcess:
            continue
    return members


def alive(members: set[Identity]) -> set[Identity]:
    """Those that still run; a zombie that nobody has waited for is gone."""
    living = set()
    for pid, started in members:
        try:
            process = psutil.Process(pid)
            if process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE:
                living.add((pid, started))
        except psutil.NoSuchProcess:
            continue
    return living


def live_sandboxes(process: subprocess.Popen[bytes]) -> int:
    """Sandbox processes below the campaign, told by the program that makes sandboxes."""
    names = []
    for member in psutil.Process(process.pid).children(recursive=True):
        try:
            names.append(member.name())
        except psutil.NoSuchProcess:
            continue
    return names.count("bwrap")


@pytest.mark.e2e
@pytest.mark.timeout(900)
def test_interrupted_then_killed_then_finished(runs: Path) -> None:
    run = runs / "quickstart" / "attempt_1"
    seen: set[Identity] = set()

    first = launch(runs, resume=False)
    wait_for(lambda: count(run, "rollout_ended", rollout=0), "the first rollout", first)
    seen |= family(first)
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=120) == 130
    assert count(run, "ended", outcome="interrupted") == 1
    assert alive(seen) == set(), "an interrupted campaign ends its processes before it answers"
    saved = count(run, "checkpoint", role="actor")
    assert saved >= 1 and count(run, "checkpoint", role="critic") == saved

    second = launch(runs, resume=True)
    done = count(run, "rollout_ended")
    wait_for(lambda: count(run, "rollout_ended") > done, "a rollout after the resume", second)
    wait_for(lambda: live_sandboxes(second) > 0, "a rollout in progress", second)
    seen |= family(second)
    ray_directory = Path(json.loads((run / "ray.json").read_text())["temp_dir"])
    second.kill()
    assert second.wait(timeout=120) == -signal.SIGKILL
    wait_for(lambda: not ray_directory.exists(), "the killed campaign's Ray to end by itself")
    assert count(run, "ended") == 1, "a killed campaign has no last word"

    third = launch(runs, resume=True)
    assert third.wait(timeout=300) == 0, (runs / "output.txt").read_text()[-3000:]
    assert count(run, "ended", outcome="finished") == 1
    ended = [entry["rollout"] for entry in events(run) if entry["event"] == "rollout_ended"]
    assert sorted(set(ended)) == list(range(ROLLOUTS)) and ended[-1] == ROLLOUTS - 1
    assert_nothing_left(run, seen)
    assert_one_lineage(run)
    assert [path for path in unlisted(runs) if path != "output.txt"] == [], (
        "docs/reference/run-directory.md lists it all"
    )


def assert_nothing_left(run: Path, seen: set[Identity]) -> None:
    """No process, mount, socket directory or sandbox directory of any session."""
    assert alive(seen) == set()
    assert str(run) not in Path("/proc/self/mounts").read_text()
    assert not (run / "ray.json").exists()
    for process in psutil.process_iter(["pid"]):
        try:
            assert str(run) not in " ".join(process.cmdline()), process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    kept = {path.name for path in (run / "sandboxes").iterdir()}
    assert kept <= {"leases.jsonl", "python"}, kept


def assert_one_lineage(run: Path) -> None:
    """Every rollout once in the joined record, sampled one version behind the trainer except first in a session."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rollouts = {row["rollout/step"]: row for row in rows if "rollout/step" in row}
    steps = {row["train/step"]: row for row in rows if "train/step" in row}
    assert set(rollouts) == set(steps) == set(range(ROLLOUTS))
    firsts = {0} | {entry["resumed_from_rollout"] for entry in events(run) if entry.get("resumed")}
    for rollout_id, row in rollouts.items():
        lag = steps[rollout_id]["train/staleness"]
        assert lag == (0 if rollout_id in firsts else 1)
        assert row["terminal/weight_version_min"] == row["terminal/weight_version_max"] == rollout_id - lag
        assert row["terminal/drifted_in_loss"] == row["terminal/unaccounted_tokens"] == 0
    assert "train/pg_loss" not in steps[0] and "train/pg_loss" in steps[1], (
        "one critic-only rollout, also over a resume"
    )
