"""Refusals about other runs name whole commands: of that run's directory, or of this command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from t1cli.cluster.jobs import JobState
from t1cli.errors import Refused
from t1cli.launch.evaluate_job import evaluation_of
from t1cli.launch.slime import submit as slime_submit
from t1cli.launch.slime.evaluation import refuse_other
from t1cli.launch.stop import stop_after_next_save
from t1cli.records import write_json
from t1cli.run.directory import RunDirectory
from t1cli.spec.load import load_experiment

STRATEGY = Path("t1-strategy15k")


class OneJob:
    """A cluster on which one job lives."""

    address = "http://head:8265"

    def __init__(self, metadata: dict[str, str]) -> None:
        self._job = JobState("t1-x-a1-s1", "RUNNING", "", metadata)

    def living(self, metadata: dict[str, str]) -> tuple[JobState, ...]:
        return (self._job,)


def hint_of(refused: pytest.ExceptionInfo[Refused]) -> str:
    return refused.value.diagnostics[0].hint


def test_a_second_submission_names_what_stops_the_first(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "their runs" / "x" / "attempt_1")
    with pytest.raises(Refused) as refused:
        slime_submit._refuse_second(OneJob({"t1_campaign": "x", "t1_run_dir": str(run.path)}), "x")  # type: ignore[arg-type]
    words = ["t1", "launch", str(run.spec_yaml), "--runs-dir", str(tmp_path / "their runs"), "--stop"]
    assert f"`{shlex.join(words)}`, where it was launched, ends it" in hint_of(refused)
    with pytest.raises(Refused) as refused:
        slime_submit._refuse_second(OneJob({"t1_campaign": "x"}), "x")  # type: ignore[arg-type]
    assert "`ray job stop t1-x-a1-s1` ends it at once" in hint_of(refused)


def test_an_evaluation_of_something_else_is_followed_with_the_same_settings(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "t1-strategy15k.eval" / "attempt_1")
    run.path.mkdir(parents=True)
    write_json(run.path / "evaluation_request.json", {"checkpoint": "/saves/iter 10"})
    loaded = load_experiment(STRATEGY, ["rollout.num_rollouts=7"])
    with pytest.raises(Refused) as refused:
        refuse_other(run, "/saves/iter_20", "t1-y", loaded)
    words = ["t1", "eval", "/saves/iter 10", "t1-strategy15k", "--set", "rollout.num_rollouts=7"]
    assert hint_of(refused).startswith(f"`{shlex.join([*words, '--runs-dir', str(tmp_path)])}` follows it again")


def test_an_evaluation_is_stopped_under_its_own_name(tmp_path: Path) -> None:
    loaded = evaluation_of(load_experiment(STRATEGY, ["seed=3", "name=mine"]))
    words = ["t1", "launch", "t1-strategy15k", "--set", "seed=3", "--set", "name=mine.eval", "--stop"]
    assert loaded.again("launch", "--stop") == shlex.join(words)
    assert load_experiment(STRATEGY, loaded.overrides).spec.name == loaded.spec.name


def test_nothing_to_stop_names_where_the_runs_are(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        stop_after_next_save(tmp_path / "quickstart")
    assert hint_of(refused) == f"`t1 runs --runs-dir {tmp_path}` shows what ran and how it ended"
