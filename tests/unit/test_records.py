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

from t1cli.records import LineLog, append_line, read_json, read_lines, write_json


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


def test_lines_of_many_writers_are_whole_and_none_is_cut_off_by_another(tmp_path: Path) -> None:
    """Each opens the file for every line, as watchers do, while others are in the middle of long ones."""
    path = tmp_path / "events.jsonl"
    program = (
        "import sys; from pathlib import Path; from t1cli.records import append_line\n"
        "for n in range(40):\n"
        "    append_line(Path(sys.argv[1]), {'who': sys.argv[2], 'n': n, 'text': 'x' * 300_000})\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(path), str(who)]) for who in range(4)]
    assert [writer.wait(timeout=300) for writer in writers] == [0] * 4
    found = [(line["who"], line["n"]) for line in read_lines(path)]
    assert len(path.read_bytes().splitlines()) == 160
    assert sorted(found) == [(str(who), n) for who in range(4) for n in range(40)]


def test_only_the_end_of_a_long_log_is_read_before_a_line_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"text": "%s"}\n' % (b"x" * 8_000_000) + b'{"torn": "' + b"y" * 70_000)
    read: list[int] = []
    really = os.pread

    def counted(descriptor: int, length: int, offset: int) -> bytes:
        read.append(length)
        return really(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    append_line(path, {"n": 1})
    assert sum(read) <= 200_000
    assert [line.get("n") for line in read_lines(path)] == [None, 1] and len(path.read_bytes().splitlines()) == 2


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: really(descriptor, bytes(content)[:3]))
    append_line(tmp_path / "log", {"n": 1})
    append_line(tmp_path / "log", {"n": 2})
    assert (tmp_path / "log").read_text() == '{"n": 1}\n{"n": 2}\n'


def test_what_a_full_disk_left_is_cut_off_by_the_next_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really, room = os.write, [12]

    def full(descriptor: int, content: bytes) -> int:
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        written = really(descriptor, bytes(content)[: room[0]])
        room[0] -= written
        return written

    log = LineLog(tmp_path / "log")
    monkeypatch.setattr(os, "write", full)
    log.append({"n": 1})
    with pytest.raises(OSError, match="No space"):
        log.append({"n": 2})
    monkeypatch.setattr(os, "write", really)
    log.append({"n": 3})
    log.close()
    assert (tmp_path / "log").read_text() == '{"n": 1}\n{"n": 3}\n'


@pytest.mark.parametrize("foreign", ["a note of mine", '{"torn": '])
def test_what_may_not_be_ours_is_ended_and_never_cut(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if foreign.startswith("{"):  # a file system without locks: somebody may be writing it at this moment

        def no_locks(descriptor: int, operation: int) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr("fcntl.flock", no_locks)
    (tmp_path / "log").write_text(foreign)
    append_line(tmp_path / "log", {"n": 1})
    assert (tmp_path / "log").read_text() == f'{foreign}\n{{"n": 1}}\n'


def test_a_line_beyond_all_measure_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t1cli.records._LONGEST_LINE", 50)
    (tmp_path / "log").write_text('{"n": 1}\n' + f'{{"text": "{"x" * 500}"}}\n' + '{"n": 2}\n')
    assert list(read_lines(tmp_path / "log")) == [{"n": 1}, {"n": 2}]
    with (tmp_path / "log").open("a") as stream:
        stream.write("{" + "x" * 500)
    append_line(tmp_path / "log", {"n": 3})
    assert [line["n"] for line in read_lines(tmp_path / "log")] == [1, 2, 3]


def test_text_that_is_no_utf8_stays_json(tmp_path: Path) -> None:
    name = b"caf\xe9".decode(errors="surrogateescape")
    append_line(tmp_path / "log", {"name": name})
    write_json(tmp_path / "object", {"name": name})
    assert next(read_lines(tmp_path / "log")) == read_json(tmp_path / "object") == {"name": name}


def test_a_file_that_cannot_be_written_is_named_and_not_the_one_aside(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError) as raised:
        write_json(tmp_path / "there", {})
    assert (raised.value.filename, raised.value.filename2) == (str(tmp_path / "there"), None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["there"]


def test_a_log_on_a_full_disk_says_which_file_it_is(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        append_line(tmp_path / "log.jsonl", {"a": 1})
    assert raised.value.filename == str(tmp_path / "log.jsonl")
