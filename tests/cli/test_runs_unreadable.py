"""A run that cannot be read hides no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.run import summary as run_summary
from t1cli.run.directory import RunDirectory


def test_the_others_are_listed_and_the_unreadable_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name / "attempt_1").mkdir(parents=True)
    summarize = run_summary.summarize

    def refused(run: RunDirectory, **how: bool) -> run_summary.RunSummary:
        if run.name == "theirs":
            raise PermissionError(13, "Permission denied", str(run.events_jsonl))
        return summarize(run, **how)

    monkeypatch.setattr(run_summary, "summarize", refused)
    shown = CliRunner().invoke(app, ["runs", "--runs-dir", str(tmp_path)])
    assert shown.exit_code == 3 and "mine" in shown.stdout and "theirs" not in shown.stdout
    assert "Permission denied" in shown.stderr and "events.jsonl" in shown.stderr.replace("\n", "")
    told = CliRunner().invoke(app, ["runs", "--runs-dir", str(tmp_path), "--json"])
    assert told.exit_code == 3 and [run["name"] for run in json.loads(told.stdout)["runs"]] == ["mine"]
