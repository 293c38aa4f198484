"""Files that appear whole, and line logs that survive a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.records import LineLog, read_json, read_lines, write_json


@given(cut=st.integers(min_value=0, max_value=60))
def test_a_log_torn_anywhere_keeps_every_whole_line_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    lines = ['{"step": 0, "é": 1.5}', '{"step": 1, "x": "a\\nb"}', '{"step": 2}']
    whole = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(whole[:cut])
    log = LineLog(path)
    log.append({"step": 3})
    log.close()
    expected, at = [], 0
    for line in lines:
        at += len(line.encode()) + 1
        if cut >= at - 1:  # whole but for the newline counts: the object is complete
            expected.append(json.loads(line))
    assert list(read_lines(path)) == [*expected, {"step": 3}]
    assert path.read_bytes().endswith(b"\n")


def test_readers_pass_over_a_line_that_is_still_being_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"a": 1}\n{"a": 2')
    assert list(read_lines(path)) == [{"a": 1}]
    assert path.read_text() == '{"a": 1}\n{"a": 2'  # reading repairs nothing


def test_lines_of_a_process_killed_right_after_append_are_on_record(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    program = (
        "import os, signal, sys; from pathlib import Path; from t1cli.records import LineLog\n"
        "log = LineLog(Path(sys.argv[1]))\n"
        "[log.append({'n': n}) for n in range(100)]\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", program, str(path)], timeout=120)
    assert died.returncode == -signal.SIGKILL
    assert [line["n"] for line in read_lines(path)] == list(range(100))


def test_a_failed_write_leaves_the_former_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"n": 1})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_json(path, {"n": 2})
    assert read_json(path) == {"n": 1}


def test_nan_is_refused_rather_than_written_as_invalid_json(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "x.jsonl")
    with pytest.raises(ValueError):
        log.append({"x": float("nan")})
    log.close()
