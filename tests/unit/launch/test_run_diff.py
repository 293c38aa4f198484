"""What `t1 diff` finds between two runs, and only that."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.errors import Refused
from t1cli.launch.launch import launch
from t1cli.run.diff import diff_runs
from t1cli.run.directory import RunDirectory


def test_two_runs_of_one_spec_do_not_differ(loaded, options, listener, stages) -> None:
    for _ in range(2):
        launch(loaded, options, listener, stages())
    runs = [RunDirectory(options.runs_root / "quickstart" / f"attempt_{n}") for n in (1, 2)]
    assert diff_runs(*runs).changes == ()


def test_spec_code_and_environment_are_told_apart(load, options, listener, stages, monkeypatch) -> None:
    launch(load(), options, listener, stages())
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("WANDB_API_KEY", "Zq7planted0123456789")
    monkeypatch.setattr("t1cli.run.record.installed_versions", lambda: {"t1": "9.9"})
    launch(load("rollout.batch_size=8"), replace(options, accepted=frozenset()), listener, stages())
    answer = CliRunner().invoke(
        app, ["diff", "quickstart/attempt_1", "quickstart", "--json", "--runs-dir", str(options.runs_root)]
    )
    assert answer.exit_code == 1, answer.output
    found = json.loads(answer.stdout)
    assert found["format_version"] == 1
    changes = {(c["part"], c["key"]): c for c in found["changes"]}
    batch = changes["spec", "rollout.batch_size"]
    assert (batch["old"], batch["new"], batch["where"]) == (load().spec.rollout.batch_size, 8, "--set")
    assert changes["code", "versions.t1"]["new"] == "9.9"
    assert changes["environment", "NCCL_DEBUG"]["new"] == "INFO"
    assert "Zq7planted" not in answer.stdout


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("sessions", 0, "environment"), None, "sessions.0.environment"),
        (("sessions", 0, "versions"), ["t1"], "sessions.0.versions"),
        (("sessions", 0, "spec_git", "dirty"), {}, "sessions.0.spec_git.dirty"),
        (("sessions",), [], "it lists no session"),
        (("job_id",), 7, "job_id"),
    ],
)
def test_a_record_with_a_value_of_another_type_is_refused(
    place, value, said, loaded, options, listener, stages
) -> None:
    launch(loaded, options, listener, stages())
    run = RunDirectory(options.runs_root / "quickstart" / "attempt_1")
    record = json.loads(run.record_json.read_text())
    inside = record
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    run.record_json.write_text(json.dumps(record))
    with pytest.raises(Refused, match=said):
        diff_runs(run, run)
