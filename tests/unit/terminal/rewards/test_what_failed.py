"""What a broken task is told by: the last lines that were printed, and the tests that did not pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from t1cli.terminal.rewards.failed_tests import failed_tests, named
from t1cli.terminal.rewards.printed import after_colon


def test_the_last_lines_are_whole_and_nothing_is_said_to_be_nothing() -> None:
    assert after_colon("because\n") == " because"
    assert after_colon(" \n\n") == " it printed nothing"
    lines = [f"line {number}" for number in range(30)]
    assert after_colon("\n".join(lines)) == "\n" + "\n".join(lines[-8:])
    assert after_colon("x" * 5000) == " " + "x" * 600


def report(directory: Path, content: Any) -> Path:
    (directory / "verifier").mkdir()
    (directory / "verifier" / "ctrf.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return directory


def test_failed_tests_are_named_with_the_last_line_of_their_reason(tmp_path: Path) -> None:
    tests = [
        {"name": "test_outputs.py::test_good", "status": "passed"},
        {"name": "test_outputs.py::test_later", "status": "skipped"},
        {"name": "test_outputs.py::test_order", "status": "failed", "trace": "a.py:3\nAssertionError: b before a\n"},
        {"name": "test_hangs", "status": "other"},
    ]
    found = failed_tests(report(tmp_path, {"results": {"tests": tests}}))
    assert found == ("test_order (AssertionError: b before a)", "test_hangs")
    assert named(found * 3) == "test_order (AssertionError: b before a), test_hangs, " + found[0] + " and 3 more"


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"results": {"tests": [3]}}', '{"results": 1}'])
def test_a_report_that_cannot_be_read_names_none(tmp_path: Path, content: str) -> None:
    assert failed_tests(report(tmp_path, content)) == ()
    assert failed_tests(tmp_path / "nowhere") == ()
