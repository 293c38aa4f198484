"""Counts first, then the mean; intervals over tasks; slime's eval-only command."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.errors import BadInput, Refused
from t1cli.launch.backend import End, Occupation, Started
from t1cli.launch.evaluate_job import EvaluationRequest, evaluate_as_job
from t1cli.launch.evaluation import summarise
from t1cli.launch.fake_backend import FakeBackend
from t1cli.launch.gates import Refusal
from t1cli.launch.proposal import LaunchOptions
from t1cli.launch.slime.compile import compile_evaluation, evaluation_problems
from t1cli.records import write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import hand_over, lock_holder, mutex
from t1cli.run.measured import FILE, Measured, TrialSeen, end_line, read_measured, write_measured
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.state import RunState, standing
from t1cli.spec.load import load_experiment

from .conftest import Listener

ON_SLIME = (
    "engine.kind=slime",
    "evaluation.name=held-out",
    "evaluation.path=tasks",
    "evaluation.num_tasks=2",
    "evaluation.repeats=2",
    "evaluation.context_tokens=256",
    "evaluation.max_new_tokens_per_turn=8",
    "evaluation.max_turns=2",
)


@pytest.mark.catalogue("C10")
def test_a_mean_stands_beside_its_counts() -> None:
    solved = {"a": [1.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 0.0]}
    found = summarise("tb", "/w", Measured(9, solved, [1.0, 0.5]))
    assert (found.scheduled, found.scored, found.solved, found.complete) == (9, 6, 3, False)
    assert found.solved_rate == pytest.approx(0.5) and found.mean_reward == 0.75
    assert found.spread == pytest.approx(abs(1 / 3 - 2 / 3) / 2**0.5)
    low, high = found.interval
    assert low == 0.0 and high == 1.0


def test_without_the_block_the_command_is_repeated_with_its_keys(tmp_path: Path) -> None:
    arguments = ["eval", "/w", "quickstart", "--set", "rollout.max_turns=7", "--runs-dir", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "the spec has no `evaluation` block" in done.stderr
    command = shlex.split(" ".join(done.stderr.split("`")[-2].split()))
    assert command[:4] == ["t1", "eval", "/w", "quickstart"]
    assert command[-2:] == ["--runs-dir", str(tmp_path)]
    settings = dict(word.split("=") for word in command if "=" in word)
    assert (settings["rollout.max_turns"], settings["evaluation.max_turns"]) == ("7", "7")
    # With the two words that only the user knows, the command that was printed says all that is needed.
    settings |= {"evaluation.path": str(tmp_path), "evaluation.num_tasks": "1"}
    load_experiment(Path("quickstart"), [f"{key}={value}" for key, value in settings.items()])


def test_nothing_scored_is_no_zero() -> None:
    found = summarise("tb", "/w", Measured(3, {}, []))
    assert found.solved_rate is None and found.mean_reward is None and found.interval is None


def test_slime_gets_an_eval_only_run_and_nothing_is_started(tmp_path: Path) -> None:
    arguments = ["eval", "/ckpt/actor", "t1-strategy15k", "--dry-run", "--json", "--runs-dir", str(tmp_path)]
    answer = CliRunner().invoke(app, [*arguments, "--set", "engine.ray_address=http://head:8265"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    argv = found["argv"]
    assert argv[0].endswith("train.py") and argv[argv.index("--num-rollout") + 1] == "0"
    assert argv[argv.index("--load") + 1] == "/ckpt/actor" and argv.count("--load") == 1
    assert "--save" not in argv and "--eval-interval" in argv and found["refusals"] == []
    assert found["job"]["metadata"]["t1_campaign"] == "t1-strategy15k.eval"
    assert list(tmp_path.iterdir()) == []


def test_an_eval_only_run_has_what_megatron_asserts_and_no_critic() -> None:
    spec = load_experiment(Path("t1-strategy15k")).spec
    run = RunDirectory(Path("/r/x.eval/attempt_1"))
    compiled = compile_evaluation(spec, run, "/ckpt/actor/iter_0000089")
    argv = compiled.argv
    values = dict(pairwise(argv))
    # The newest save of a directory is not the one that was asked for.
    assert (values["--load"], values["--ckpt-step"]) == ("/ckpt/actor", "89")
    # A schedule of no rollouts would be 0 long.
    assert values["--num-rollout"] == "0" and values["--lr-decay-iters"] == "1"
    assert {"--no-load-optim", "--no-load-rng"} <= set(argv)
    assert values["--advantage-estimator"] == "grpo" and "--megatron-config-path" not in argv
    assert [p for p in evaluation_problems(spec, compiled) if p.severity == "error"] == []


@pytest.mark.parametrize(("pipeline", "staleness"), [("sync", 0), ("one_step", 1)])
def test_every_pipeline_is_evaluated_by_the_synchronous_entry(pipeline: str, staleness: int) -> None:
    lag = (f"rollout.pipeline={pipeline}", f"rollout.max_staleness={staleness}")
    spec = load_experiment(Path("quickstart"), [*ON_SLIME, *lag]).spec
    argv = compile_evaluation(spec, RunDirectory(Path("/r/x.eval/attempt_1")), "/c").argv
    assert argv[0].endswith("/train.py") and "--keep-old-actor" not in argv


def request_of(tmp_path: Path, backend: FakeBackend, *overrides: str) -> EvaluationRequest:
    loaded = load_experiment(Path("quickstart"), [*ON_SLIME, *overrides])
    options = LaunchOptions(tmp_path / "runs", "t1 eval /w SPEC", assume_yes=True)
    return EvaluationRequest(loaded, "/w", options, backend)


def test_a_job_is_a_run_of_its_own_and_its_answer_that_of_the_embedded_engine(
    tmp_path: Path, listener: Listener
) -> None:
    found = Measured(4, {"a": [1.0, 0.0], "b": [1.0]}, [1.0, 0.2, 1.0])
    backend = FakeBackend(evaluation=found)
    request = request_of(tmp_path, backend, "checkpoint.actor_dir=/shared/actor")
    answer = evaluate_as_job(request, listener)
    assert answer == summarise("held-out", "/w", found) and not answer.complete
    (job,) = backend.jobs
    assert job.run.path == tmp_path / "runs/quickstart.eval/attempt_1"
    assert job.spec.checkpoint.actor_dir is None, "the campaign's scores are not touched"
    assert standing(job.run).state is RunState.FINISHED and lock_holder(job.run.path.parent) is None
    evaluate_as_job(request, listener)
    assert backend.jobs[1].run.attempt == 2


def test_an_evaluation_is_refused_as_a_launch_is(tmp_path: Path, listener: Listener) -> None:
    reason = Refusal("engine", "no cluster", "spec.yaml:1", "name one", acceptable=False)
    backend = FakeBackend(evaluation=Measured(1, {}, []), reasons=(reason,))
    with pytest.raises(Refused, match="no cluster"):
        evaluate_as_job(request_of(tmp_path, backend), listener)
    assert backend.jobs == [] and not (tmp_path / "runs").exists()
    nothing = load_experiment(Path("quickstart"), ["engine.kind=slime"])
    with pytest.raises(BadInput, match="nothing to measure by"):
        evaluate_as_job(replace(request_of(tmp_path, backend), loaded=nothing), listener)


def test_a_second_evaluation_waits_for_the_first(tmp_path: Path, listener: Listener) -> None:
    found = Measured(1, {"a": [1.0]}, [1.0])
    campaign = tmp_path / "runs/quickstart.eval"
    other = subprocess.Popen(["sleep", "600"])
    try:
        with mutex(campaign):
            hand_over(RunDirectory(campaign / "attempt_1"), ProcessIdentity.of(other.pid))
        backend = FakeBackend(evaluation=found)
        with pytest.raises(Refused, match="is running already"):
            evaluate_as_job(request_of(tmp_path, backend), listener)
    finally:
        other.kill()
        other.wait()
    assert backend.jobs == []
    assert evaluate_as_job(request_of(tmp_path, backend), listener).complete


def test_a_job_that_nobody_follows_is_followed_again_by_the_same_request(tmp_path: Path, listener: Listener) -> None:
    before, after = Measured(2, {"a": [1.0]}, [1.0]), Measured(2, {"a": [1.0, 1.0]}, [1.0, 1.0])
    request = request_of(tmp_path, FakeBackend(evaluation=before))
    assert not evaluate_as_job(request, listener).complete
    run = RunDirectory(tmp_path / "runs/quickstart.eval/attempt_1")
    write_json(run.path / "evaluation_request.json", {"checkpoint": "/w"})

    def end() -> End:
        write_measured(run.path, after)
        return "finished"

    living = FakeBackend()
    living.occupation = lambda campaign: Occupation(
        "job-1", True, None, lambda job: Started("job-1", ProcessIdentity.of(), end)
    )
    assert evaluate_as_job(replace(request, backend=living), listener).complete
    assert living.jobs == [] and not (run.path.parent / "attempt_2").exists(), "nothing new was started"
    with pytest.raises(Refused, match="job-1 is still running: it evaluates /w"):
        evaluate_as_job(replace(request, backend=living, checkpoint="/other"), listener)


def test_a_lost_answer_is_not_a_small_one(tmp_path: Path, listener: Listener) -> None:
    backend = FakeBackend(evaluation=Measured(2, {"a": [1.0]}, [1.0]))
    request = request_of(tmp_path, backend)
    evaluate_as_job(request, listener)
    run = backend.jobs[0].run
    (run.path / FILE).unlink()
    log = run.job_log
    lines = [TrialSeen("a", 1.0, 1.0).line(), TrialSeen("b", None, None, "sandbox/create").line(), end_line(2)]
    log.write_text("".join(f"(RolloutManager pid=7) {line}\n" for line in lines))
    assert read_measured(run.path, log) == Measured(2, {"a": [1.0]}, [1.0])
    log.write_text("".join(f"(RolloutManager pid=7) {line}\n" for line in lines[1:]))
    assert read_measured(run.path, log) is None
    log.write_text("".join(f"{line}\n" for line in lines[:2]))
    assert read_measured(run.path, log) is None


def test_the_exit_code_says_whether_every_trial_was_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["eval", "/w", "t1-strategy15k", "--json", "--runs-dir", str(tmp_path)]
    for solved, code in (({"a": [1.0], "b": [0.0]}, 0), ({"a": [1.0]}, 1)):
        found = summarise("tb", "/w", Measured(2, solved, [1.0] * len(solved)))
        monkeypatch.setattr("t1cli.launch.evaluate_job.evaluate_as_job", lambda *_, found=found: found)
        answer = CliRunner().invoke(app, arguments)
        assert answer.exit_code == code and json.loads(answer.stdout)["scored"] == len(solved)


def test_a_directory_without_a_save_is_refused_before_anything_starts(tmp_path: Path) -> None:
    arguments = ["eval", str(tmp_path), "t1-strategy15k", "--dry-run", "--runs-dir", str(tmp_path / "runs")]
    answer = CliRunner().invoke(app, [*arguments, "--set", "engine.ray_address=http://head:8265"])
    assert answer.exit_code == 1 and "no finished Megatron checkpoint" in answer.stdout
