"""Run directories whose files are junk, pipes, devices or loops: status, runs and a replay still answer."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from t1cli.errors import Refused, T1Error
from t1cli.records import write_json
from t1cli.run.attempts import all_runs
from t1cli.run.directory import RunDirectory
from t1cli.run.record import read_record
from t1cli.run.summary import summarize
from t1cli.ui.json_view import print_object
from t1cli.ui.runs_view import print_runs
from t1cli.ui.status_view import print_status
from t1cli.watch.sources.open_source import open_source

FILES = ("record.json", "events.jsonl", "metrics.jsonl", "plan.json", "origins.json", "spec.resolved.yaml")
JUNK = {
    "empty": b"",
    "binary": bytes(range(256)),
    "deep": b"[" * 100_000,
    "huge numbers": b'{"rollout/step":' + b"9" * 400 + b',"time":1e999,"event":"ended"}\n',
    "wrong types": b'{"time":[],"event":{},"rollout/step":"1","nan":3}\n{"rollout/step":-1}\n{"rollout/step":true}\n',
    "moments": b'{"time":1e300,"event":"launched"}\n{"time":-1e300,"event":"checkpoint","rollout":1e999}\n',
    "escapes": json.dumps({"time": 1, "event": "ended", "outcome": "failed", "detail": "\x1b[2J\u202e"}).encode()
    + b"\n",
    "bomb": b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "foreign spec": b"rollout: {batch_size: [1], num_rollouts: x}\nwatch: {packs: 3, rules: 4}\nalgorithm: []\n",
}


def answers(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `t1 status`, `t1 runs --json` and `t1 watch --replay` do, without starting a command line each time."""
    (run,) = all_runs(root)
    summary = summarize(run)
    print_runs([summary], root)
    print_status(summary)
    shown = capsys.readouterr().out
    print_object(summary.to_json())
    printed = capsys.readouterr().out
    assert isinstance(json.loads(printed), dict)
    assert not set(shown + printed) & set("\x1b\u202e")
    with contextlib.suppress(T1Error):
        opened = open_source(str(run.path), root)
        for row in opened.source.poll():
            assert row.step >= 0


@pytest.mark.parametrize("name", FILES)
def test_any_content_is_survived(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "camp" / "attempt_1"
    run.mkdir(parents=True)
    for content in JUNK.values():
        (run / name).write_bytes(content)
        answers(tmp_path, capsys)


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_not_waited_for(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, make in (
        ("pipe", lambda path: os.mkfifo(path)),
        ("endless", lambda path: path.symlink_to("/dev/zero")),
        ("loop", lambda path: path.symlink_to(path.name)),
        ("directory", lambda path: path.mkdir()),
    ):
        run = tmp_path / kind / "camp" / "attempt_1"
        run.mkdir(parents=True)
        make(run / name)
        answers(tmp_path / kind, capsys)


def test_a_record_of_the_future_is_refused_with_both_formats(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "camp" / "attempt_1")
    write_json(run.record_json, {"format_version": 2, "whatever": "it holds by then"})
    with pytest.raises(Refused, match="format 2: this t1 reads up to 1") as raised:
        read_record(run)
    assert raised.value.diagnostics[0].where == str(run.record_json) and raised.value.diagnostics[0].hint
