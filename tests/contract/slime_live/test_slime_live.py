"""Campaigns on a real Ray with real job submission; a double of slime holds the hooks to slime's rules."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.errors import Refused
from t1cli.launch.evaluate_job import EvaluationRequest, evaluate_as_job
from t1cli.launch.launch import launch
from t1cli.launch.slime.follow import JobFailed
from t1cli.launch.slime.running_limits import refuse_low_limits
from t1cli.launch.stop import stop_after_next_save, stop_now
from t1cli.run.checkpoint_manifest import Owner, problem_of
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, read_events
from t1cli.run.lock import lock_holder
from t1cli.run.measured import FILE, read_measured
from t1cli.run.metrics_reader import read_metrics, series
from t1cli.run.ray_job import read_ray_job
from t1cli.run.record import read_record
from t1cli.run.state import RunState, standing
from t1cli.spec.load import LoadedSpec
from t1cli.terminal.trajectory.store import load_rows

from .conftest import EVALUATION, ROOT, SECRETS, Head, Listener, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def run_of(options, name: str) -> RunDirectory:
    return RunDirectory(options.runs_root / name / "attempt_1")


def test_a_campaign_runs_to_its_end_and_is_on_record(head: Head, load, listener, stages, options) -> None:
    loaded = load("whole", "rollout.num_rollouts=3", "checkpoint.every_rollouts=1")
    record = launch(loaded, options, listener, stages)
    run = run_of(options, "whole")
    assert record.job_id.startswith("t1-whole-a1-s1-") and record == read_record(run)
    assert standing(run).state is RunState.FINISHED and lock_holder(run.path.parent) is None
    rows = read_metrics(run.metrics_jsonl)
    assert list(series(rows, "rollout/raw_reward")) == [0, 1, 2]
    assert list(series(rows, "train/grad_norm")) == [0, 1, 2]
    assert list(series(rows, "terminal/total_samples")) == [0, 1, 2]
    assert series(rows, "train/value_mean"), "the explained variance hook ran"
    # The double's trainer stands one nat beside the engine, above the clip: weight e, all of it clipped.
    assert list(series(rows, "train/tis").values()) == pytest.approx([math.e] * 3)
    assert list(series(rows, "train/tis_clipfrac").values()) == [1.0] * 3
    assert list(series(rows, "train/tis_abs").values()) == pytest.approx([math.e - 1] * 3)
    for rollout in range(3):
        assert load_rows(run.rollouts / f"rollout_{rollout:06d}.npz")
    owner = Owner("whole", record.family, str(run.path), "critic")
    assert problem_of(run.critic_checkpoints, 2, owner) == ""
    saves = [e for e in read_events(run.events_jsonl) if e.kind is EventKind.CHECKPOINT]
    assert {(e.text("role"), e.number("rollout")) for e in saves} >= {("actor", 3), ("critic", 3)}
    log = (run.logs / "job.log").read_text()
    assert "dropped:" in log
    _no_secret(head, run)


LOOPS = {
    "t1": ("rollout.over_sampling_batch_size=3",),
    "slime": ("rollout.over_sampling_batch_size=3", "engine.rollout_loop=slime"),
    "slime_ahead": ("engine.rollout_loop=slime", "rollout.pipeline=one_step", "rollout.max_staleness=1"),
    "fully_async": ("rollout.pipeline=fully_async", "rollout.max_staleness=2"),
}
"""Who plays the trials: t1's own loop, slime's stock rollout through our generate function, its asynchronous worker."""


@pytest.mark.parametrize("loop", LOOPS)
def test_three_rollouts_keep_slimes_rules_whoever_plays_them(
    loop: str, head: Head, load, listener, stages, options, tmp_path: Path
) -> None:
    samples = tmp_path / "samples"
    small = ("rollout.num_rollouts=3", "checkpoint.every_rollouts=1", "sandbox.capacity=3")
    knobs = (f"engine.env.STUB_SAMPLES='{samples}'", "engine.env.STUB_TRAIN_SECONDS='0.5'")
    launch(load(f"loop-{loop}", *small, *knobs, *LOOPS[loop]), options, listener, stages)
    run = run_of(options, f"loop-{loop}")
    assert standing(run).state is RunState.FINISHED
    rows = read_metrics(run.metrics_jsonl)
    for name in ("rollout/raw_reward", "train/grad_norm", "train/tis", "terminal/total_samples"):
        assert list(series(rows, name)) == [0, 1, 2], name
    assert set(series(rows, "terminal/unaccounted_tokens").values()) == {0.0}
    for rollout in range(3):
        _samples_are_the_rows(samples / f"rollout_{rollout}.json", run.rollouts / f"rollout_{rollout:06d}.npz")
    _weight_versions(loop, run, series(rows, "terminal/version_lag"))
    _every_trial_is_booked(run, series(rows, "terminal/sampled_tokens"))
    for command in ("audit", "report"):
        said = CliRunner().invoke(app, [command, str(run.path), "--json"])
        assert said.exit_code == 0, said.output
    _nothing_left_of(run)


def _samples_are_the_rows(samples: Path, rows: Path) -> None:
    """What slime trains on is what the run has on record, bit for bit; the batch is full."""
    trained = json.loads(samples.read_text())
    assert len({sample["group_id"] for sample in trained}) == len({sample["group_index"] for sample in trained}) == 2
    assert any(log_prob < 0 for sample in trained for log_prob in sample["rollout_log_probs"])
    assert sum(sum(sample["loss_mask"]) for sample in trained) > 0
    for sample, row in zip(trained, load_rows(rows), strict=True):
        start = len(row.tokens) - sample["response_length"]
        assert sample["tokens"] == row.tokens.tolist() and sample["reward"] == row.reward
        assert sample["loss_mask"] == row.loss_mask[start:].tolist() and sum(sample["loss_mask"]) > 0
        assert sample["rollout_log_probs"] == pytest.approx(row.log_probs[start:].tolist())
        assert all(
            value < 0 for value, mask in zip(sample["rollout_log_probs"], sample["loss_mask"], strict=True) if mask
        )
        assert sample["routes"] == row.routed_experts.tolist() and len(sample["routes"]) == len(row.tokens) - 1
        assert sample["weight_versions"] == list(row.weight_versions)


def _weight_versions(loop: str, run: RunDirectory, lag: dict[int, float]) -> None:
    """The double pushes version 1 before the first rollout and one more after each step."""
    versions = [{v for row in load_rows(path) for v in row.weight_versions} for path in sorted(run.rollouts.iterdir())]
    if loop == "fully_async":
        assert list(lag) == [0, 1, 2] and all(0 <= value <= 2 for value in lag.values())
        assert all(found <= {1, 2, 3} for found in versions) and versions[0] == {1}
    elif loop == "slime_ahead":
        assert versions == [{1}, {1}, {2}] and list(lag.values()) == [0, 1, 1]
    else:
        assert versions == [{1}, {2}, {3}] and list(lag.values()) == [0, 0, 0]


def _every_trial_is_booked(run: RunDirectory, sampled: dict[int, float]) -> None:
    lines = [line for path in sorted(run.trials.glob("rollout_*.jsonl")) for line in path.read_text().splitlines()]
    trials = [json.loads(line) for line in lines]
    assert len({trial["trial_id"] for trial in trials}) == len(trials) >= 6
    assert sum(sampled.values()) == sum(trial["sampled_tokens"] + trial["lost_tokens"] for trial in trials)


def _nothing_left_of(run: RunDirectory) -> None:
    """No process of its sandboxes, whose places lie below the run's directory."""
    commands = [_command_line(entry).decode(errors="replace") for entry in Path("/proc").iterdir()]
    assert not [command for command in commands if str(run.sandboxes) in command]


def _no_secret(head: Head, run: RunDirectory) -> None:
    """Keys stood in this process's environment and in the head's: they are in no file, job, command line or log."""
    job = read_ray_job(run)
    assert job is not None
    found = {
        "job": str(head.jobs()._client.get_job_info(job.job_id)).encode(),
        "log": head.jobs().log(job.job_id).encode(),
    }
    for root in (run.path.parent, head.temp_dir):
        found |= {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    found |= {str(entry): _command_line(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    assert any("/logs/raylet.out" in place for place in found) and any("job.log" in place for place in found)
    for name, secret in SECRETS.items():
        leaking = [place for place, content in found.items() if secret.encode() in content]
        assert not leaking, f"{name} stands in {leaking}"


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def test_a_stop_request_waits_for_a_save_and_a_resume_goes_on(head: Head, load, listener, stages, options) -> None:
    # With the optimizer saved, a schedule of another length is refused by Megatron unless it is overridden.
    small = (
        "engine.env.STUB_TRAIN_SECONDS='0.5'",
        "checkpoint.what=full",
        *EVALUATION,
        "evaluation.every_rollouts=100",
    )
    loaded = load("stops", "rollout.num_rollouts=40", *small)
    run = run_of(options, "stops")
    failures = _in_background(lambda: launch(loaded, options, listener, stages))
    wait_until(lambda: _rollouts(run) >= 1, 1200, "the first rollout")
    with pytest.raises(Refused, match="running"):
        launch(loaded, options, Listener(), stages)
    elsewhere = replace(options, runs_root=options.runs_root / "elsewhere")
    with pytest.raises(Refused, match="runs on this cluster already"):
        launch(loaded, elsewhere, Listener(), stages)
    with pytest.raises(Refused, match="`stops` runs on this cluster already"):
        evaluate_as_job(EvaluationRequest(loaded, "/nonexistent/actor", options), Listener())
    _no_secret(head, run)
    answer = stop_after_next_save(run.path.parent)
    assert answer.stops_after_rollouts is not None and answer.job_id == read_ray_job(run).job_id
    failures.join(1200)
    assert standing(run).state is RunState.STOPPED
    first = _rollouts(run)
    assert first < 40

    again = load("stops", f"rollout.num_rollouts={first + 3}", *small)
    record = launch(again, replace(options, resume=True), listener, stages)
    assert standing(run).state is RunState.FINISHED and len(record.sessions) == 2
    assert record.session.resumed_from_rollout and record.session.resumed_from_rollout >= 2
    resumed = (run.logs / "job.log").read_text()
    assert f"critic loaded {run.critic_checkpoints} at {record.session.resumed_from_rollout - 1}" in resumed
    assert _rollouts(run) == first + 3


def test_a_checkpoint_is_evaluated_by_a_job_of_its_own(head: Head, values, options, tmp_path) -> None:
    actor = _checkpoint(tmp_path / "actor", 3, 5)
    before = sorted(actor.rglob("*"))
    sets = values("measured", *EVALUATION, f"checkpoint.actor_dir={actor}")
    arguments = [*(word for value in sets for word in ("--set", value)), "--runs-dir", str(options.runs_root)]
    said = CliRunner().invoke(app, ["eval", str(actor / "iter_0000003"), "quickstart", "--json", *arguments])
    assert said.exit_code == 0, said.output
    answer = json.loads(said.stdout)
    assert (answer["name"], answer["scheduled"], answer["scored"]) == ("held-out", 4, 4) and answer["complete"]
    assert 0.0 <= answer["interval"][0] <= answer["solved_rate"] <= answer["interval"][1] <= 1.0
    assert said.stderr.count("  reward ") == 4, "every trial is told as it ends"
    run = run_of(options, "measured.eval")
    log = run.job_log.read_text()
    assert f"actor loaded {actor} at 3" in log and "critic loaded" not in log
    assert sorted(actor.rglob("*")) == before, "neither a claim nor a score was left beside the checkpoints"
    assert standing(run).state is RunState.FINISHED
    measured = read_measured(run.path, run.job_log)
    (run.path / FILE).unlink()
    told = read_measured(run.path, run.job_log)
    assert told is not None and measured is not None
    assert told.scheduled == 4 and told.solved.keys() == measured.solved.keys(), "the log alone would do"
    _no_secret(head, run)


def test_weights_other_than_those_asked_for_are_never_evaluated(head: Head, load, listener, options) -> None:
    loaded = load("elsewhere", *EVALUATION)
    with pytest.raises(JobFailed):
        evaluate_as_job(EvaluationRequest(loaded, "/nonexistent/actor", options), listener)
    log = run_of(options, "elsewhere.eval").job_log.read_text()
    assert "holds no finished Megatron checkpoint" in log


def _checkpoint(directory: Path, *rollouts: int) -> Path:
    """Finished saves as the double writes them; the tracker names the last."""
    for rollout in rollouts:
        (directory / f"iter_{rollout:07d}").mkdir(parents=True)
        (directory / f"iter_{rollout:07d}" / "weights.bin").write_bytes(b"weights")
    (directory / "latest_checkpointed_iteration.txt").write_text(str(rollouts[-1]))
    return directory


def test_one_step_is_evaluated_before_its_first_step(head: Head, load, listener, stages, options) -> None:
    ahead = ("rollout.pipeline=one_step", "rollout.max_staleness=1", "rollout.num_rollouts=2")
    pipeline = (*ahead, *EVALUATION, "evaluation.every_rollouts=2")
    launch(load("ahead", *pipeline), options, listener, stages)
    run = run_of(options, "ahead")
    assert standing(run).state is RunState.FINISHED
    first, then = json.loads((run.path / "job/session_1/argv.json").read_text())
    assert first[1].endswith("/train.py") and first[first.index("--num-rollout") + 1] == "0"
    assert then[1].endswith("/train_async.py") and "--keep-old-actor" in then
    rows = read_metrics(run.metrics_jsonl)
    assert list(series(rows, "eval/held-out/scheduled").items()) == [(0, 4.0), (1, 4.0)]
    assert list(series(rows, "rollout/raw_reward")) == [0, 1]
    log = run.job_log.read_text()
    assert log.index("eval 0: {") < log.index("perf 0: {") < log.index("eval 1: {")


@pytest.mark.catalogue("S8")
def test_limits_of_the_running_ray_decide_a_launch(head: Head, load, real_limits, listener, stages, options) -> None:
    launch(load("limits", "rollout.num_rollouts=1"), options, listener, stages)
    assert standing(run_of(options, "limits")).state is RunState.FINISHED
    assert not [line for line in listener.lines if "S8" in line], "limits were read, and they suffice"
    # Were it submitted after all, it would fail at once.
    many = load("many", "rollout.batch_size=4000000", "engine.slime_dir=/nonexistent/slime")
    with pytest.raises(Refused, match="S8") as refused:
        launch(many, options, listener, stages)
    said = refused.value.diagnostics
    assert {word for one in said for word in one.message.split()} >= {"raylet", "gcs_server", "driver"}
    assert all("start that node's Ray anew" in one.hint and "nofile" in one.hint for one in said)
    assert head.jobs().living({"t1_campaign": "many"}) == ()
    accepted: list[str] = []
    refuse_low_limits(head.jobs(), many.spec, accepted={"S8"}, progress=accepted.append)
    assert len(accepted) == 1 and accepted[0].startswith("S8 accepted")


def test_a_killed_launcher_leaves_a_job_that_is_followed_again(head: Head, load, listener, stages, options) -> None:
    loaded = load("orphan", "rollout.num_rollouts=12", "engine.env.STUB_TRAIN_SECONDS='1.0'")
    run = run_of(options, "orphan")
    child = _launch_in_a_process(loaded, options)
    wait_until(lambda: _rollouts(run) >= 1, 1200, "the first rollout")
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert standing(run).state is RunState.UNKNOWN
    with pytest.raises(Refused, match="still running, and nobody follows it"):
        launch(loaded, options, listener, stages)
    record = launch(loaded, replace(options, resume=True), listener, stages)
    assert standing(run).state is RunState.FINISHED
    assert len(record.sessions) == 1, "the same session went on"
    assert list(series(read_metrics(run.metrics_jsonl), "rollout/raw_reward")) == list(range(12))


def test_stopping_now_names_what_is_lost(head: Head, load, listener, stages, options) -> None:
    loaded = load("now", "rollout.num_rollouts=50", "engine.env.STUB_TRAIN_SECONDS='0.5'")
    run = run_of(options, "now")
    ended = _in_background(lambda: launch(loaded, options, listener, stages))
    wait_until(lambda: _rollouts(run) >= 3, 1200, "three rollouts")
    answer = stop_now(run.path.parent)
    assert answer.ended and answer.lost_rollouts and answer.lost_rollouts[0] % 2 == 0
    ended.join(1200)
    assert standing(run).state is RunState.INTERRUPTED


def test_a_crash_within_the_critic_only_phase_keeps_the_critic(head: Head, load, listener, stages, options) -> None:
    fail = ("engine.env.STUB_FAIL_AT='3'", "algorithm.critic.critic_only_steps=4", "checkpoint.every_rollouts=1")
    with pytest.raises(Exception, match="failed"):
        launch(load("critic", "rollout.num_rollouts=6", *fail), options, listener, stages)
    run = run_of(options, "critic")
    assert standing(run).state is RunState.FAILED
    assert not (run.actor_checkpoints / "latest_checkpointed_iteration.txt").exists()
    record = launch(load("critic", "rollout.num_rollouts=6", *fail), replace(options, resume=True), listener, stages)
    assert standing(run).state is RunState.FINISHED and record.session.resumed_from_rollout is None
    assert f"critic loaded {run.critic_checkpoints} at 2" in (run.logs / "job.log").read_text()


def test_a_killed_head_is_recovered_from(weights: Path, load, listener, stages, options, monkeypatch) -> None:
    monkeypatch.setenv("T1_FOLLOW_PATIENCE_SECONDS", "3")
    mine = Head().start()
    try:
        over = (f"engine.ray_address={mine.url}", "engine.env.STUB_TRAIN_SECONDS='1.0'")
        loaded = load("lost", "rollout.num_rollouts=9", *over)
        run = run_of(options, "lost")
        ended = _in_background(lambda: launch(loaded, options, listener, stages))
        wait_until(lambda: (run.actor_checkpoints / "iter_0000001").exists(), 1200, "a save")
        assert mine.kill() > 3
        ended.join(1200)
        assert standing(run).state is RunState.FAILED and "CouldNotAsk" in standing(run).detail
        with pytest.raises(Refused, match="may still run"):
            launch(loaded, replace(options, resume=True), listener, stages)
        mine.start()
        options = replace(options, resume=True, accepted=frozenset({"C8"}))
        record = launch(load("lost", "rollout.num_rollouts=5", *over), options, listener, stages)
        assert standing(run).state is RunState.FINISHED and len(record.sessions) == 2
        assert record.session.resumed_from_rollout >= 2
    finally:
        mine.kill()
    assert not mine.processes()


def test_directories_of_another_campaign_are_refused(head: Head, load, listener, stages, options, tmp_path) -> None:
    actor = tmp_path / "shared" / "actor"
    small = ("rollout.num_rollouts=1", f"checkpoint.actor_dir={actor}")
    launch(load("first", *small), options, listener, stages)
    with pytest.raises(Refused, match=r"belongs to .*first"):
        launch(load("second", *small), options, listener, stages)
    with pytest.raises(Refused, match=r"belongs to .*attempt_1"):
        launch(load("first", *small), options, listener, stages)


def _rollouts(run: RunDirectory) -> int:
    return len(series(read_metrics(run.metrics_jsonl), "rollout/raw_reward"))


def _in_background(action: Callable[[], object]) -> threading.Thread:
    def body() -> None:
        try:
            action()
        except BaseException as end:
            print(f"background launch ended: {end!r}")

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def _launch_in_a_process(loaded: LoadedSpec, options) -> subprocess.Popen[bytes]:
    """The same launch in a process of its own, so that it can be killed."""
    program = (
        "import sys, pickle; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from slime_live.conftest import Listener, _plan\n"
        "from t1cli.launch.launch import launch\n"
        "from t1cli.launch.proposal import LaunchOptions, Stages\n"
        "from t1cli.preflight.report import PreflightReport\n"
        "loaded, root = pickle.loads(bytes.fromhex(sys.stdin.readline()))\n"
        "stages = Stages(plan=_plan, preflight=lambda *_: PreflightReport('x', '0' * 12, ()))\n"
        "launch(loaded, LaunchOptions(root, 't1 launch SPEC', assume_yes=True), Listener(), stages)\n"
    )
    import pickle

    child = subprocess.Popen(
        [sys.executable, "-c", program, str(ROOT / "tests/contract")],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdin is not None
    child.stdin.write(pickle.dumps((loaded, options.runs_root)).hex().encode() + b"\n")
    child.stdin.flush()
    return child


def test_the_files_of_a_job_can_be_read_by_a_reviewer(head: Head, load, listener, stages, options) -> None:
    launch(load("files", "rollout.num_rollouts=1"), options, listener, stages)
    directory = run_of(options, "files").path / "job" / "session_1"
    (argv,) = json.loads((directory / "argv.json").read_text())
    assert argv[0] == "python3" and argv[1].endswith("train.py")
    assert sorted(path.name for path in directory.iterdir()) == [
        "argv.json",
        "job.json",
        "roles.yaml",
        "t1.yaml",
        "t1_entry.py",
    ]


def test_limits_of_every_running_process_are_read_on_two_nodes(head: Head) -> None:
    from t1cli.cluster.probe import open_files

    head.add_node()
    found = open_files(head.jobs())
    assert sorted(one.process for one in found) == ["driver", "gcs_server", "raylet", "raylet"]
    assert all(one.soft > 0 and one.open > 0 and one.pid > 0 for one in found)
    assert len({one.pid for one in found if one.process == "raylet"}) == 2
