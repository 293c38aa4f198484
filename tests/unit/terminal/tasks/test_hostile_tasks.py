"""Task directories made to hang, escape or crash the loader are refused, soon and by name."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.terminal.rewards.ctrf import read_ctrf
from t1cli.terminal.tasks.generator import generate, write_harbor
from t1cli.terminal.tasks.load import load_pool

# A loader that hangs on one of these fails here and not after the suite's own limit.
pytestmark = pytest.mark.timeout(120)


def _replaced(path: Path, target: str) -> None:
    shutil.rmtree(path)
    path.symlink_to(target)


def _large(path: Path) -> None:
    with path.open("ab") as stream:
        stream.truncate(100 * 1024 * 1024)


SPOILT: dict[str, Callable[[Path], object]] = {
    "key of 50,000 parts": lambda task: (task / "task.toml").write_text("a" + ".a" * 50_000 + "=1"),
    "number of 6,000 digits": lambda task: (task / "task.toml").write_text("a=" + "9" * 6000),
    "nested brackets": lambda task: (task / "task.toml").write_text("a=" + "[" * 100_000),
    "100 MB": lambda task: _large(task / "task.toml"),
    "pipe in tests": lambda task: os.mkfifo(task / "tests" / "pipe"),
    "pipe as instruction": lambda task: ((task / "instruction.md").unlink(), os.mkfifo(task / "instruction.md")),
    "link to itself": lambda task: (task / "tests" / "loop").symlink_to("loop"),
    "tests elsewhere": lambda task: _replaced(task / "tests", "/etc"),
    "environment elsewhere": lambda task: _replaced(task / "environment", "/"),
    "2,001 files": lambda task: [(task / "tests" / f"f{i}").touch() for i in range(2001)],
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_spoilt_task_is_refused(kind: str, tmp_path: Path) -> None:
    SPOILT[kind](write_harbor(generate("write", 1, random.Random(1)), tmp_path))
    with pytest.raises(BadInput) as error:
        load_pool(tmp_path)
    assert all(problem.where.startswith(str(tmp_path)) for problem in error.value.diagnostics)
    assert len(error.value.diagnostics) < 5


def test_a_long_word_is_no_deep_key(tmp_path: Path) -> None:
    task = write_harbor(generate("write", 1, random.Random(1)), tmp_path)
    (task / "task.toml").write_text(f'[metadata]\nfamily = "{"q" * 200_000}"\n')
    assert len(load_pool(tmp_path)) == 1


def test_one_task_may_not_come_twice(tmp_path: Path) -> None:
    task = write_harbor(generate("write", 1, random.Random(1)), tmp_path)
    (tmp_path / "again").symlink_to(task)
    with pytest.raises(BadInput, match="a second task"):
        load_pool(tmp_path)


@pytest.mark.parametrize("start", ["9" * 4000, "1e999", "-1e999", "NaN", "true", "[]"])
def test_a_report_with_an_impossible_start_is_read(start: str) -> None:
    content = f'{{"results":{{"summary":{{"start":{start}}},"tests":[{{"status":"passed"}}]}}}}'
    assert read_ctrf(content.encode(), not_before_seconds=1e9).passed == 1
