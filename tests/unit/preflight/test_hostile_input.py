"""A hostile spec and a hostile pool: errors only, nothing executed, nothing written elsewhere, within bounds."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from t1cli.errors import BadInput
from t1cli.plan.build import build_plan
from t1cli.preflight.check import Context
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.preflight.fleet import ThisMachine
from t1cli.preflight.runner import run_checks
from t1cli.spec.load import LoadedSpec, load_experiment
from t1cli.spec.locate import experiments_dir

TASKS = experiments_dir() / "quickstart" / "tasks"
ENOUGH_BYTES, ENOUGH_CPU_SECONDS = 3 << 30, 120
BY_NATURE_LONG = ("tasks.ctrf_coverage", "sandboxes.probe")
"""They run commands on purpose, in sandboxes; the tests below ask them apart."""


def string_leaves(value: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from string_leaves(child, f"{prefix}{key}.")
    elif isinstance(value, str):
        yield prefix.rstrip(".")


def hostile_spec(name: str, place: Path) -> LoadedSpec:
    """Every free text of a spec as a command for any shell that would see it, together; refused ones go back."""
    canary = place / "PWNED"
    evil = f"x; touch {canary}; $(touch {canary}) `touch {canary}` | touch {canary} & '\"' || ../../../etc/passwd"
    spec = load_experiment(Path(name)).spec.model_dump(mode="json")
    resolved = place / "experiment.yaml"
    keys = [key for key in string_leaves(spec) if not key.endswith("kind")]
    for _ in range(30):
        content = yaml.safe_load(yaml.safe_dump(spec))
        for key in keys:
            put(content, key, evil)
        resolved.write_text(yaml.safe_dump(content))
        try:
            loaded = load_experiment(resolved)
            build_plan(loaded)
        except BadInput as refused:
            lines = resolved.read_text().splitlines()
            told = {
                int(one.where.rsplit(":", 2)[-2 if one.where.count(":") > 1 else -1])
                for one in refused.diagnostics
                if ":" in one.where
            }
            bad = {lines[number - 1].split(":")[0].strip() for number in told}
            before, keys = len(keys), [key for key in keys if key.rsplit(".", 1)[-1] not in bad]
            assert len(keys) < before, refused.diagnostics
            continue
        assert len(keys) > 5, "the spec has free texts"
        return loaded
    raise AssertionError("never accepted")


def put(content: Any, key: str, value: str) -> None:
    *parents, last = key.split(".")
    for part in parents:
        content = content[part]
    content[last] = value


@pytest.mark.parametrize("name", ["quickstart", "t1-strategy15k"])
def test_shell_metacharacters_in_every_text_of_a_spec_run_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "spec"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    loaded = hostile_spec(name, place)
    context = Context(loaded, build_plan(loaded), tmp_path / "runs", ThisMachine())
    before = sorted(place.rglob("*"))
    checks = [check for check in ALL_CHECKS if check.id not in BY_NATURE_LONG]
    report = run_checks(checks, context)
    assert sorted(place.rglob("*")) == before, "nothing ran, nothing was written"
    assert not (tmp_path / "runs").exists()
    crashed = [(check.id, check.found) for check in report.checks if check.status == "crashed"]
    assert crashed == [], "a hostile value is a finding, not a bug"


def hostile_pool(place: Path, outside: Path) -> None:
    """One good task, and every trick that a directory can play."""
    place.mkdir()
    good = min(TASKS.iterdir())
    for name in ("good", "huge-toml", "linked-tests", "pipe", "deep-key", "binary", "linked-toml", "many-files"):
        shutil.copytree(good, place / name)
    with (place / "huge-toml/task.toml").open("wb") as file:
        file.truncate(100 << 20)
    shutil.rmtree(place / "linked-tests/tests")
    (place / "linked-tests/tests").symlink_to(outside)
    os.mkfifo(place / "pipe/tests/fifo")
    (place / "deep-key/task.toml").write_text(".".join(["a"] * 5000) + " = 1\n")
    (place / "binary/instruction.md").write_bytes(os.urandom(4096))
    (place / "linked-toml/task.toml").unlink()
    (place / "linked-toml/task.toml").symlink_to("/etc/passwd")
    for number in range(2100):
        (place / f"many-files/tests/{number}").touch()
    (place / "loop").symlink_to("loop")
    (place / "up").symlink_to("..")
    (place / "; touch PWNED").mkdir()
    (place / "; touch PWNED/task.toml").write_text("[metadata]\n")


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ENOUGH_BYTES, ENOUGH_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (ENOUGH_CPU_SECONDS, ENOUGH_CPU_SECONDS))


def preflight(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`t1 preflight` as a process of its own, with little memory and little time, in a directory of its own."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    program = "from t1cli.cli.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "preflight", *arguments, "--runs-dir", str(place / "runs")],
        cwd=home,
        env={**os.environ, "HOME": str(home), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        preexec_fn=limited,
        check=False,
    )


def test_a_hostile_pool_is_refused_within_bounds(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("nobody's business")
    hostile_pool(tmp_path / "pool", outside)
    done = preflight(tmp_path, "quickstart", "--only", "tasks", "--set", f"tasks.path={tmp_path / 'pool'}", "--all")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "nobody's business" not in done.stdout
    assert "✗ fail    tasks.pool" in done.stdout
    assert "needs tasks.pool, which failed" in done.stdout, "and nothing of it was run"
    assert list((tmp_path / "home").iterdir()) == [] and not (tmp_path / "runs").exists()


def test_binary_junk_as_a_report_is_counted_not_believed(tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    for task in sorted(TASKS.iterdir())[:2]:
        shutil.copytree(task, pool / task.name)
        (pool / task.name / "tests/test.sh").write_text(
            "mkdir -p ${T1_ROOT:-}/logs/verifier\n"
            "head -c 200000 /dev/urandom > ${T1_ROOT:-}/logs/verifier/ctrf.json\n"
            "echo 1 > ${T1_ROOT:-}/logs/verifier/reward.txt\n"
        )
    arguments = ("--only", "tasks.pool", "--only", "tasks.ctrf_coverage", "--set", f"tasks.path={pool}")
    done = preflight(tmp_path, "quickstart", *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "0 of 2 sampled tasks report per test" in done.stdout and "corrupt" in done.stdout
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)),
        "presets: [../../../../etc/passwd]\n",
    ],
    ids=["bomb", "traversal"],
)
def test_a_hostile_file_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "experiment.yaml").write_text(text)
    done = preflight(tmp_path, str(tmp_path / "experiment.yaml"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and done.stderr.startswith("error")
    assert list((tmp_path / "home").iterdir()) == [] and not (tmp_path / "runs").exists()
