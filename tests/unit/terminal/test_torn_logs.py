"""Every log of the terminal rooms goes on behind a line that a crash has cut off, and loses no whole one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.records import append_line, read_lines
from t1cli.terminal.rollout.outcome import Outcome, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.task_times import TaskTimes
from t1cli.terminal.rollout.trial_log import append_trial
from t1cli.terminal.sandbox.leases import Lease, LeaseBook
from t1cli.terminal.sandbox.pool.journal import JournalLease, LeaseJournal
from t1cli.terminal.tasks.audit.record import Key, VerdictRecord
from t1cli.terminal.tasks.audit.verdict import Verdict

Add = Callable[[Path, str, SimpleNamespace], Path]


def _lease(directory: Path, name: str, doubles: SimpleNamespace) -> Path:
    book = LeaseBook(directory)
    book.ask(Lease(name, "run/1/2@boot"))
    return book.path


def _journal(directory: Path, name: str, doubles: SimpleNamespace) -> Path:
    journal = LeaseJournal(directory)
    journal.granted(JournalLease(name, "task", "group", "owner", "request"))
    return journal.path


def _trial(directory: Path, name: str, doubles: SimpleNamespace) -> Path:
    plan = TrialPlan(doubles.task_named("task"), name, 0, 0, 0, 0)
    append_trial(directory / "log.jsonl", TrialResult(plan, Outcome(True, StopReason.DONE)))
    return directory / "log.jsonl"


def _times(directory: Path, name: str, doubles: SimpleNamespace) -> Path:
    plan = TrialPlan(doubles.task_named(name), name, 0, 0, 0, 0)
    done = TrialResult(plan, Outcome(True, StopReason.DONE), seconds={"agent": 1.0})
    TaskTimes(directory / "log.jsonl").note(0, [done])
    return directory / "log.jsonl"


def _verdict(directory: Path, name: str, doubles: SimpleNamespace) -> Path:
    VerdictRecord(directory / "log.jsonl").add(Key(name, "judge", "1"), name, Verdict({}, {}))
    return directory / "log.jsonl"


@pytest.mark.parametrize("add", [_lease, _journal, _trial, _times, _verdict])
def test_the_line_behind_a_torn_one_is_not_lost(add: Add, doubles: SimpleNamespace, tmp_path: Path) -> None:
    path = add(tmp_path, "first", doubles)
    with path.open("ab") as stream:
        stream.write(b'{"event": "asked", "name": "cut o')
    add(tmp_path, "second", doubles)
    found = [str(line) for line in read_lines(path)]
    assert len(found) == 2 and "first" in found[0] and "second" in found[1]


def test_the_reader_and_the_writer_of_a_check_go_on_behind_a_torn_line(tmp_path: Path) -> None:
    from t1cli.terminal.tasks.check_pool import read_record

    line = {"digest": "d", "problems": [], "emptied_passed": 0}
    record = tmp_path / "record.jsonl"
    append_line(record, {"name": "first", **line})
    with record.open("ab") as stream:
        stream.write(b'{"name": "cut o')
    append_line(record, {"name": "second", **line})
    assert list(read_record(record)) == ["first", "second"]
