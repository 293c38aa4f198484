"""What a task directory says: how many tasks, whether their tests are counted, how long the longest text is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from t1cli.terminal.tasks.check_pool import spread_of
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task

_TEST: Final = re.compile(r"^(?: {4}|\t)?(?:async )?def test_\w+\(", re.MULTILINE)


@dataclass(frozen=True)
class OwnTasks:
    """A directory of tasks, read but not run."""

    count: int
    counted: int
    """Tasks whose verifier mentions a CTRF report."""
    longest_bytes: int
    """Length of the longest instruction: no tokenizer needs more tokens than that."""
    tests: Mapping[str, float]
    """Tests per task that tasks declare, or that their files hold: `p50`, `p90`, `max`; empty where there are none."""

    @property
    def counts_tests(self) -> bool:
        """Whether every task seems to report test by test; preflight finds out."""
        return self.counted == self.count


def read_tasks(directory: Path) -> OwnTasks:
    """Read every task. Raises BadInput with the problems of all of them."""
    tasks = load_pool(directory)
    scripts = [(task.tests / "test.sh").read_text(encoding="utf-8", errors="replace") for task in tasks]
    numbers = [number for task in tasks if (number := task.expected_tests or _written(task))]
    return OwnTasks(
        count=len(tasks),
        counted=sum("ctrf" in script for script in scripts),
        longest_bytes=max(len(task.instruction.encode()) for task in tasks),
        tests=spread_of(numbers),
    )


def _written(task: Task) -> int:
    """Test functions in the task's own files: what a run will report, unless tests are parametrised."""
    files = sorted(task.tests.rglob("test_*.py"))
    return sum(len(_TEST.findall(path.read_text(encoding="utf-8", errors="replace"))) for path in files)
