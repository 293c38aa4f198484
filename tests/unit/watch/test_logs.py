"""Log signatures with their public examples, transcripts, repeats, rotation, restarts, rates and first causes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.watch.logs.classifier import LogClassifier
from t1cli.watch.logs.scanner import find_literals, scan, scan_slowly
from t1cli.watch.logs.signatures import Signature, match_line, minute_of, repeats, signatures, stripped

TABLE = signatures()
ALLOCATE = (
    "[2026-04-25 {hour:02d}:{minute:02d}:55] generate.py:63 - [task=1329 uid=6bbf003b group_idx=13 sample_idx=105] "
    "env.allocate failed (HTTPStatusError): Client error '429 Too Many Requests' for url 'http://127.0.0.1:18080/allocate'"
)
FINISHED = "[2026-04-25 {hour:02d}:{minute:02d}:10] agent_runner.py:201 - Rollout finished: task=12 turns=7"


def names(line: str) -> set[str]:
    return {TABLE[index].name for index in match_line(line.encode(), range(len(TABLE)), TABLE)}


@pytest.mark.catalogue("M1", "M8", "M10", "S8", "C4")
@pytest.mark.parametrize("signature", TABLE, ids=lambda signature: signature.name)
def test_every_public_example_is_recognized_by_every_scanner(signature: Signature) -> None:
    line = signature.example
    assert signature.name in names(line)
    assert any(literal in line.encode() for literal in signature.literals)
    for prefix in ("", "(WorkerDict pid=123, ip=10.0.0.1) ", "\x1b[36m(RolloutManager pid=5)\x1b[0m "):
        text = f"first\n{prefix}{line}\nlast\n".encode()
        hits = [list(scan(text)), list(scan(text, find=find_literals)), list(scan_slowly(text))]
        assert hits[0] == hits[1] == hits[2]
        assert signature.name in {TABLE[hit.signature].name for hit in hits[0]}


@pytest.mark.parametrize("signature", [s for s in TABLE if s.kind in ("fatal", "resource")], ids=lambda s: s.name)
@pytest.mark.parametrize(
    "transcript",
    [
        "[trial=7 turn=3] observation: {}",
        "agent> cat log.txt: {}",
        'root@box:/app# echo "{}"',
        '{{"role": "tool", "content": "{}"}}',
        "  | {}",
        "[2026-04-24 12:47:55] agent_runner.py:88 - [task=12] terminal output: {}",
    ],
)
def test_transcripts_are_never_matched(signature: Signature, transcript: str) -> None:
    message = stripped(signature.example.encode()).decode()
    assert names(transcript.format(message)) == set()


def test_ray_repeats_are_counted() -> None:
    line = b"(ReferenceModelRayActor pid=5823, ip=1.2.3.4) [rank0]:[E1225 00:00:00.1 x.cpp:1] [Rank 0] Watchdog caught \
collective operation timeout: WorkNCCL(SeqNum=1) ran for 7200031 milliseconds. [repeated 14x across cluster]"
    assert repeats(line) == 15
    (hit,) = scan(line)
    assert (TABLE[hit.signature].name, hit.count) == ("nccl_watchdog", 15)


def test_minutes_are_unix_minutes() -> None:
    assert minute_of(b"[1970-01-02 01:01:59] x") == 1440 + 61
    assert minute_of(b"[2026-04-25 10:48:00] x") == 1777114080 // 60
    assert minute_of(b"no clock") is None


def log_of(*lines: str) -> str:
    return "".join(line + "\n" for line in lines)


def classified(path: Path, text: str) -> LogClassifier:
    path.write_text(text, encoding="utf-8")
    made = LogClassifier(path)
    made.poll(last=True)
    return made


@pytest.mark.catalogue("L9")
def test_retries_are_rated_per_finished_rollout_and_not_dropped(tmp_path: Path) -> None:
    """08-10 h: 1,728 refusals for 287 rollouts; 10-12 h: 1,439 for 98. The count falls as the rate doubles."""
    lines = []
    for hour, refused, finished in ((8, 172, 29), (10, 144, 10)):
        lines += [ALLOCATE.format(hour=hour, minute=i % 60) for i in range(refused)]
        lines += [FINISHED.format(hour=hour, minute=i % 60) for i in range(finished)]
    (rate,) = classified(tmp_path / "log", log_of(*lines)).state.rates()
    assert (rate.signature, rate.count) == ("allocate_429", 316)
    assert rate.per_finished_rollout == pytest.approx(316 / 39)
    assert rate.worst_hour == pytest.approx(14.4)
    assert rate.alert
    few = log_of(*[FINISHED.format(hour=8, minute=1)] * 20, ALLOCATE.format(hour=8, minute=2))
    (rate,) = classified(tmp_path / "log2", few).state.rates()
    assert not rate.alert


def test_a_watchdog_after_a_dead_actor_is_an_echo(tmp_path: Path) -> None:
    at = "[2026-05-01 10:{:02d}:00] x.py:1 - "
    text = log_of(
        at.format(10) + "Worker exit type: SYSTEM_ERROR Worker exit detail: connection error code 2. End of file.",
        at.format(20) + "[Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=BROADCAST)",
        at.format(21) + "Job 'raysubmit_1' failed",
    )
    cause = classified(tmp_path / "log", text).state.cause()
    assert cause is not None
    assert (cause.signature, cause.cascade) == ("worker_system_error", ("job_failed", "nccl_watchdog"))


@pytest.mark.catalogue("M8")
def test_the_kernel_is_believed_before_ray(tmp_path: Path) -> None:
    at = "[2026-05-01 10:10:{:02d}] x.py:1 - "
    text = log_of(
        at.format(1) + "ray.exceptions.ActorDiedError: The actor died unexpectedly",
        at.format(30) + "Out of memory: Killed process 4182 (python) total-vm:812044kB",
    )
    cause = classified(tmp_path / "log", text).state.cause()
    assert cause is not None
    assert (cause.signature, cause.cascade) == ("kernel_oom", ("actor_died",))


def test_a_worker_that_dies_after_the_end_is_no_cause(tmp_path: Path) -> None:
    died = "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot"
    before = classified(tmp_path / "a", log_of(died, "Job 'raysubmit_1' succeeded")).state
    after = classified(tmp_path / "b", log_of("Job 'raysubmit_1' succeeded", died)).state
    assert before.cause() is not None
    assert after.cause() is None
    assert after.seen["worker_died"].count == 1


def mixed(lines: int, seed: int) -> bytes:
    """A log with the postmortem's mix: 1.7% retries, a few fatal lines, transcripts, colour, odd bytes."""
    chance = random.Random(seed)
    found = []
    for number in range(lines):
        draw = chance.random()
        if draw < 0.017:
            found.append(ALLOCATE.format(hour=chance.randrange(24), minute=chance.randrange(60)).encode())
        elif draw < 0.02:
            found.append(chance.choice(TABLE).example.encode())
        elif draw < 0.025:
            found.append(b"[task=3] observation: " + chance.choice(TABLE).example.encode())
        elif draw < 0.03:
            found.append(chance.randbytes(40).replace(b"\n", b" "))
        else:
            found.append(
                b"[2026-04-24 12:47:55] rollout.py:%d - [task=%d] turn %d" % (number, number % 1376, number % 10)
            )
    return b"\n".join(found) + b"\n"


def test_scanners_agree_line_by_line_with_the_reference() -> None:
    text = mixed(20_000, seed=1)
    reference = list(scan_slowly(text))
    assert len(reference) > 300
    assert list(scan(text)) == reference
    assert list(scan(text, find=find_literals)) == reference


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 10**6), max_size=6), kills=st.lists(st.booleans(), min_size=7, max_size=7))
def test_killed_anywhere_it_neither_loses_nor_repeats(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], kills: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    text = mixed(300, seed=2)
    whole = classified(folder / "whole", "")
    whole._path.write_bytes(text)
    whole.consume(last=True)
    path, state = folder / "log", folder / "state.json"
    path.write_bytes(b"")
    reader = LogClassifier(path, state)
    for end, killed in zip([*sorted(cut % len(text) for cut in cuts), len(text)], kills, strict=False):
        with path.open("ab") as file:
            file.write(text[path.stat().st_size : end])
        reader.consume()
        if killed:  # what was counted since the last save is counted again, from the offset of that save
            reader = LogClassifier(path, state)
        else:
            reader.save()
    reader.consume(last=True)
    assert reader.state.seen == whole.state.seen


def test_rotation_and_truncation(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    reader = LogClassifier(path)
    assert reader.poll() == ()
    path.write_text(log_of(TABLE[2].example))
    assert reader.consume() == 1
    with path.open("a") as file:
        file.write(log_of(TABLE[3].example))
    os.rename(path, tmp_path / "train.log.1")
    path.write_text(log_of(TABLE[5].example))
    # What was written before the rotation and not read yet is read from the file's new name.
    assert reader.consume() == 2
    path.write_text("")
    assert reader.consume() == 0
    path.write_text(log_of(TABLE[2].example))
    assert reader.consume() == 1


def test_a_torn_last_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = TABLE[2].example
    path.write_text(line[:20])
    reader = LogClassifier(path)
    assert reader.consume() == 0
    with path.open("a") as file:
        file.write(line[20:] + "\n")
    assert reader.consume() == 1
