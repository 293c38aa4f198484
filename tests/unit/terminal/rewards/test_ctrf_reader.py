"""CTRF reports of every shape, and of none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.terminal.rewards.ctrf import MAX_BYTES, CtrfReport, read_ctrf

STATUSES = ("passed", "failed", "skipped", "pending", "other", "xfail")

tests_lists = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["a", "b"]), "status": st.sampled_from(STATUSES)}), max_size=30
)


def report(tests: list[dict[str, Any]], **summary: object) -> bytes:
    return json.dumps({"results": {"tool": {"name": "pytest"}, "summary": summary, "tests": tests}}).encode()


@given(tests_lists, st.integers(), st.booleans())
def test_counts_come_from_the_tests_whatever_the_summary_says(
    tests: list[dict[str, Any]], lie: int, bare: bool
) -> None:
    results = {"tests": tests, "summary": {"passed": lie, "failed": -lie, "tests": lie}}
    found = read_ctrf(json.dumps(results if bare else {"results": results}).encode())
    statuses = [test["status"] for test in tests]
    assert found.passed == statuses.count("passed")
    assert found.failed == statuses.count("failed")
    assert found.skipped == statuses.count("skipped")
    assert found.total == len(statuses) - statuses.count("skipped")
    assert found.state == ("ok" if found.total else "empty")


@pytest.mark.catalogue("R3")
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["results", "tests", "summary", "status", "stop"]), inner)
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_reading_never_raises(content: bytes) -> None:
    found = read_ctrf(content, not_before_seconds=1e9)
    assert found.state in ("ok", "empty", "corrupt", "stale")
    assert found.total == 0 or found.state == "ok"


@given(tests_lists, st.data())
def test_a_truncated_report_is_corrupt(tests: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = report(tests, start=1)
    cut = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    assert read_ctrf(whole[:cut]).state == "corrupt"


def test_depth_size_and_huge_numbers_are_corrupt() -> None:
    assert read_ctrf(b"[" * 200_000).state == "corrupt"
    assert read_ctrf(b'{"tests": ' + b"1" * 10_000 + b"}").state == "corrupt"
    assert read_ctrf(b" " * (MAX_BYTES + 1)).state == "corrupt"
    assert read_ctrf(b'{"tests": ["passed"]}').state == "corrupt"
    assert read_ctrf(None).state == "missing"


def test_a_session_that_was_broken_off_loses_its_running_test() -> None:
    # pytest-json-ctrf 0.3.5 under `-x` or SIGINT: the test in flight is `passed` with `stop: 0`.
    tests = [
        {"name": "a", "status": "passed", "start": 1700000000.0, "stop": 1700000000.5},
        {"name": "b", "status": "passed", "start": 1700000000.5, "stop": 0},
        {"name": "c", "status": "passed", "start": 1700000000.5},
    ]
    assert read_ctrf(report(tests)) == CtrfReport("ok", passed=1, in_flight=2)


def test_repeated_names_all_count() -> None:
    tests = [{"name": "test_x", "status": status} for status in ("passed", "failed", "passed")]
    assert read_ctrf(report(tests)) == CtrfReport("ok", passed=2, failed=1)


def test_a_summary_is_used_only_without_tests() -> None:
    summary = {"tests": 4, "passed": 2, "failed": 1, "pending": 1, "skipped": 1, "other": 0}
    assert read_ctrf(json.dumps({"results": {"summary": summary}}).encode()) == CtrfReport(
        "ok", passed=2, failed=1, other=1, skipped=1
    )
    for broken in ({"passed": -1}, {"passed": 1.5}, {"passed": True}, {"failed": 1}, {"passed": 10**9}):
        assert read_ctrf(json.dumps({"results": {"summary": broken}}).encode()).state == "corrupt", broken


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_a_report_that_started_before_the_trial_is_stale(unit: float) -> None:
    now = 1_795_986_580.0
    tests = [{"name": "a", "status": "passed"}]
    old, new = report(tests, start=(now - 60) * unit), report(tests, start=(now + 0.1) * unit)
    assert read_ctrf(old, not_before_seconds=now).state == "stale"
    assert read_ctrf(new, not_before_seconds=now).state == "ok"
    assert read_ctrf(old).state == "ok"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\n@pytest.mark.skip\ndef test_c(): pass\n"
            "@pytest.mark.parametrize('x', [1, 2])\ndef test_p(x): pass\n",
            CtrfReport("ok", passed=3, failed=1, skipped=1),
        ),
        ("def test_a(): pass\nimport nothing_of_that_name\n", CtrfReport("empty")),
    ],
)
def test_the_installed_plugin_is_read(source: str, expected: CtrfReport, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(source)
    began = time.time()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "ctrf.main", "--ctrf", "ctrf.json", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=False,
    )
    assert read_ctrf((tmp_path / "ctrf.json").read_bytes(), not_before_seconds=began) == expected
