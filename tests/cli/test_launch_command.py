"""`t1 launch`, `runs`, `status`, `logs`: golden output, exit codes, and JSON that scripts rely on."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from t1cli.cli.app import app
from t1cli.launch.fake_backend import FakeBackend
from t1cli.launch.proposal import Stages
from t1cli.plan.build import build_plan
from t1cli.preflight.report import PreflightReport
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import mutex, take
from t1cli.run.next_command import stop_command
from t1cli.run.process_identity import ProcessIdentity

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
EXPERIMENTS = sorted(path.parent.name for path in ROOT.glob("experiments/*/experiment.yaml"))
SHORT = ("--set", "rollout.num_rollouts=4", "--set", "checkpoint.every_rollouts=2")

T1 = Callable[..., Result]


@pytest.fixture
def t1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> T1:
    """Runs a command line with its own runs directory."""
    monkeypatch.setenv("T1_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(ROOT)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """`t1 launch` with the fake backend and an empty preflight."""
    backend = FakeBackend(engine="embedded")
    stages = Stages(build_plan, lambda *_: PreflightReport("quickstart", "d", ()), lambda spec: backend)
    monkeypatch.setattr("t1cli.launch.launch.Stages", lambda: stages)
    return backend


def same_as_golden(name: str, answer: dict[str, object], tmp_path: Path) -> None:
    """Compare with the stored answer; T1_WRITE_GOLDEN=1 stores it."""
    text = json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
    text = text.replace(str(tmp_path), "TMP").replace(sys.executable, "PYTHON").replace(str(ROOT), "ROOT")
    # Line numbers and the spec's digest change with every edit of a preset; what would run must not.
    text = re.sub(r'(\.yaml):\d+"', r'\1:LINE"', text).replace(str(answer["digest"]), "DIGEST")
    path = GOLDEN / name
    if os.environ.get("T1_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("experiment", ["quickstart", "t1-strategy15k", "qwen3-8b-grpo"])
def test_dry_run_json_is_golden(t1: T1, tmp_path: Path, experiment: str) -> None:
    result = t1("launch", f"experiments/{experiment}", "--dry-run", "--json")
    same_as_golden(f"dry_run_{experiment}.json", json.loads(result.stdout), tmp_path)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_dry_run_of_every_experiment_answers_and_its_exit_code_agrees(t1: T1, tmp_path: Path, experiment: str) -> None:
    result = t1("launch", f"experiments/{experiment}", "--dry-run", "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == (1 if answer["refusals"] else 0)
    assert answer["would_start"] is not bool(answer["refusals"])
    if answer["engine"] == "slime":
        assert "engine" in [refusal["id"] for refusal in answer["refusals"]]
    role_file = answer["role_file"]
    if role_file is not None:
        saves = [role["overrides"]["save"] for role in role_file["megatron"]]
        assert len(set(saves)) == 2
    assert not (tmp_path / "runs").exists()


def test_a_slime_campaign_is_not_launched(t1: T1, tmp_path: Path) -> None:
    result = t1("launch", "experiments/t1-strategy15k", "--yes", "--accept", "engine")
    assert result.exit_code == 1 and "no Ray cluster is named" in result.stderr
    assert result.stdout == "" and not (tmp_path / "runs").exists()


def test_without_a_terminal_and_without_yes_nothing_starts(t1: T1, faked: FakeBackend, tmp_path: Path) -> None:
    result = t1("launch", "experiments/quickstart")
    assert result.exit_code == 1 and "`t1 launch experiments/quickstart --yes`" in result.stderr
    assert faked.jobs == [] and not (tmp_path / "runs").exists()


def test_launch_json_is_one_object_with_the_promised_keys(t1: T1, faked: FakeBackend, tmp_path: Path) -> None:
    result = t1("launch", "experiments/quickstart", *SHORT, "--yes", "--json")
    answer = json.loads(result.stdout)
    assert next(iter(answer)) == "format_version" and result.exit_code == 0
    assert answer["run_dir"] == str(tmp_path / "runs/quickstart/attempt_1")
    assert (answer["attempt"], answer["engine"], answer["job_id"]) == (1, "embedded", f"pid:{os.getpid()}")
    assert "rollout 3" in result.stderr and Path(answer["run_dir"]).is_dir()


def test_a_launch_ends_with_the_status_summary(t1: T1, faked: FakeBackend, tmp_path: Path) -> None:
    launched = t1("launch", "experiments/quickstart", *SHORT, "--yes")
    status = t1("status")
    assert launched.exit_code == status.exit_code == 0
    assert launched.stdout.endswith(status.stdout)
    for said in ("finished", "rollout 4/4", "generate", "reward", "checks passed", "explained variance"):
        assert said in status.stdout
    for said in ("log-prob gap", "64 run, 4 failed (sandbox_create 4)", str(tmp_path / "runs/quickstart/attempt_1")):
        assert said in status.stdout


def test_interrupted_is_130(t1: T1, faked: FakeBackend) -> None:
    def interrupt(rollout: int) -> None:
        if rollout == 1:
            os.kill(os.getpid(), signal.SIGINT)

    faked.before_rollout = interrupt
    result = t1("launch", "experiments/quickstart", *SHORT, "--yes")
    assert result.exit_code == 130 and "quickstart attempt 1 interrupted after 1 rollout\n" in result.stderr
    status = json.loads(t1("status", "quickstart", "--json").stdout)
    assert (status["state"], status["rollouts_done"]) == ("interrupted", 1)
    assert "--resume" in status["next_command"]


def test_the_next_command_of_an_interrupted_run_resumes_it(t1: T1, faked: FakeBackend, tmp_path: Path) -> None:
    def interrupt(rollout: int) -> None:
        if rollout == 3:
            raise KeyboardInterrupt

    faked.before_rollout = interrupt
    t1("launch", "experiments/quickstart", *SHORT, "--yes", "--runs-dir", tmp_path / "else where")
    status = json.loads(t1("status", "--runs-dir", tmp_path / "else where", "--json").stdout)
    faked.before_rollout = lambda rollout: None
    words = shlex.split(status["next_command"])
    assert words[0] == "t1"
    result = t1(*words[1:], "--yes", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["resumed_from_rollout"] == 2
    assert json.loads(t1("status", "--runs-dir", tmp_path / "else where", "--json").stdout)["rollouts_planned"] == 4


def test_runs_status_and_logs_agree(t1: T1, faked: FakeBackend) -> None:
    for _ in range(2):
        t1("launch", "experiments/quickstart", *SHORT, "--yes")
    listed = json.loads(t1("runs", "--json").stdout)["runs"]
    assert [(run["name"], run["attempt"], run["state"]) for run in listed] == [
        ("quickstart", 1, "finished"),
        ("quickstart", 2, "finished"),
    ]
    table = t1("runs").stdout.splitlines()
    headings = ["run", "attempt", "state", "rollouts", "reward", "began", "resumed"]
    assert table[0].split() == headings and len(table) == 3
    one = json.loads(t1("status", "quickstart/attempt_1", "--json").stdout)
    assert one["reward"] == {"first": pytest.approx(0.15), "last": pytest.approx(0.15), "rollouts": 4}
    assert one["attempt"] == 1 and one["phases"][0]["phase"] == "generate" and one["phases"][0]["times"] == 4
    logs = t1("logs", "quickstart")
    assert [line.split(" ", 1)[1] for line in logs.stdout.splitlines()] == [f"rollout {n}" for n in range(4)]
    assert json.loads(t1("logs", "quickstart", "--json", "-n", 1).stdout)["lines"][0].endswith("rollout 3")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "nothing"], "no run `nothing`"),
        (["status"], "no run yet"),
        (["logs", "nothing"], "no run `nothing`"),
        (["launch", "quickstart", "--now"], "needs --stop"),
        (["launch", "quickstart", "--stop", "--resume"], "goes with --now"),
    ],
)
def test_bad_input_is_2_and_says_what_there_is(t1: T1, arguments: list[str], said: str) -> None:
    result = t1(*arguments)
    assert result.exit_code == 2 and said in result.stderr and result.stdout == ""


def test_a_running_campaign_refuses_a_second_launch_and_can_be_asked_to_stop(
    t1: T1, faked: FakeBackend, tmp_path: Path
) -> None:
    t1("launch", "experiments/quickstart", *SHORT, "--yes")
    run = RunDirectory(tmp_path / "runs/quickstart/attempt_1")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with mutex(run.path.parent):
            take(run, stop_command="x", owner=ProcessIdentity.of(other.pid))
        second = t1("launch", "experiments/quickstart", *SHORT, "--yes")
        assert second.exit_code == 1 and f"process {other.pid}" in second.stderr
        assert f"`t1 launch experiments/quickstart {shlex.join(SHORT)} --stop`" in second.stderr
        dry = json.loads(t1("launch", "experiments/quickstart", "--dry-run", "--json").stdout)
        assert [refusal["id"] for refusal in dry["refusals"]] == ["running"]
        stop = json.loads(t1("launch", "experiments/quickstart", "--stop", "--json").stdout)
        assert (stop["how"], stop["pid"]) == ("after_next_save", other.pid) and run.stop_request.exists()
        assert json.loads(t1("status", "--json").stdout)["state"] == "running"
        run.stop_request.unlink()
        again = t1(*shlex.split(stop_command(run))[1:])
        assert again.exit_code == 0 and run.stop_request.exists() and f"Next: t1 status {run.path}" in again.stdout
    finally:
        other.communicate(b"\n")
    over = t1("launch", "experiments/quickstart", "--stop")
    assert over.exit_code == 1 and "`t1 runs` shows what ran" in over.stderr


def test_logs_follow_ends_with_the_run(t1: T1, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs/quickstart/attempt_1")
    run.logs.mkdir(parents=True)
    program = (
        "import sys, time\n"
        "log = open(sys.argv[1], 'a', buffering=1)\n"
        "input()\n"
        "for n in range(3): log.write(f'line {n}\\n'); time.sleep(0.05)\n"
        "log.write('last without newline')\n"
    )
    log = run.logs / "campaign.log"
    log.touch()
    writer = subprocess.Popen([sys.executable, "-c", program, str(log)], stdin=subprocess.PIPE)
    with mutex(run.path.parent):
        take(run, stop_command="x", owner=ProcessIdentity.of(writer.pid))
    assert writer.stdin is not None
    writer.stdin.write(b"\n")
    writer.stdin.close()
    result = t1("logs", "quickstart", "--follow")
    assert result.stdout.splitlines() == ["line 0", "line 1", "line 2", "last without newline"]
    assert writer.wait(timeout=120) == 0


def test_a_person_sees_what_changed_before_answering(
    t1: T1, faked: FakeBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    t1("launch", "experiments/quickstart", *SHORT, "--yes")
    monkeypatch.setattr("t1cli.ui.launch_dialogue.TextDialogue.can_ask", lambda self: True)
    changed = ("launch", "experiments/quickstart", *SHORT, "--set", "algorithm.actor_learning_rate=3e-4")
    for typed, attempts in (("n\n", 1), ("", 1), ("y\n", 2)):
        result = CliRunner().invoke(app, list(changed), input=typed)
        assert "algorithm.actor_learning_rate  0.0002 → 0.0003" in result.stderr
        assert "Start it? [y/N]" in result.stderr and "Start it?" not in result.stdout
        assert result.exit_code == (0 if attempts == 2 else 1)
        assert len(list((tmp_path / "runs/quickstart").glob("attempt_*"))) == attempts


def test_a_place_that_cannot_be_written_is_refused(t1: T1, faked: FakeBackend, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = t1("launch", "experiments/quickstart", "--yes", "--runs-dir", tmp_path / "file" / "below")
    assert result.exit_code == 1 and "cannot make a run directory" in result.stderr
