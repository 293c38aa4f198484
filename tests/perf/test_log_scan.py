"""The log classifier against grep, both on the same file in one run. `make verify-watch` runs it on 600 MB."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import time
from pathlib import Path

import pytest

from t1cli.watch.logs.classifier import LogClassifier
from t1cli.watch.logs.scanner import fastest, find_literals, scan, scan_slowly
from t1cli.watch.logs.signatures import signatures

MEGABYTES = int(os.environ.get("T1_LOG_MEGABYTES", "0"))
LIMIT = 3.0


def write_log(path: Path, size: int) -> None:
    """Lines of a rollout manager, 1.7% of them retries, in blocks that are written again and again."""
    chance = random.Random(4)
    retry = (
        "[2026-04-24 12:47:55] generate.py:63 - [task={} uid=6bbf003b group_idx=13 sample_idx=105] env.allocate failed "
        "(HTTPStatusError): Client error '429 Too Many Requests' for url 'http://127.0.0.1:18080/allocate'\n"
    )
    line = "[2026-04-24 12:47:55] rollout.py:{} - [task={} uid={:08x}] turn {} tokens {} latency {:.2f}\n"
    block = "".join(
        retry.format(chance.randrange(1376))
        if chance.random() < 0.017
        else line.format(
            chance.randrange(999),
            chance.randrange(1376),
            chance.getrandbits(32),
            chance.randrange(10),
            chance.randrange(9999),
            chance.random(),
        )
        for _ in range(100_000)
    ).encode()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)


def grep_seconds(path: Path) -> float:
    """CPU seconds of one grep over the same alternatives."""
    alternatives = "|".join(
        "".join("\\" + c if c in r"\.[]{}()*+?|^$" else c for c in literal.decode())
        for signature in signatures()
        for literal in signature.literals
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        ["grep", "-cE", alternatives, str(path)], env={**os.environ, "LC_ALL": "C"}, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not MEGABYTES, reason="set T1_LOG_MEGABYTES, or run `make verify-watch`")
def test_at_most_three_times_the_cpu_time_of_one_grep_with_flat_memory(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write_log(path, MEGABYTES * 1_000_000)
    grep = min(grep_seconds(path) for _ in range(2))
    fastest()(b"")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    reader = LogClassifier(path)
    hits = reader.consume(last=True)
    ours = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(f"{MEGABYTES} MB: {hits} hits, grep {grep:.2f} s, ours {ours:.2f} s = {ours / grep:.2f} x, +{grown:.0f} MiB")
    assert hits > 100 * MEGABYTES
    assert grown < 100
    if fastest() is not find_literals:
        assert ours <= LIMIT * grep


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not MEGABYTES, reason="set T1_LOG_MEGABYTES, or run `make verify-watch`")
def test_equal_to_the_reference_on_20_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write_log(path, 20_000_000)
    text = path.read_bytes()[:20_000_000]
    assert list(scan(text)) == list(scan_slowly(text))
