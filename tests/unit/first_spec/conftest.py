"""Three tasks of one's own, and answers about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t1cli.first_spec.answers import Answers
from t1cli.terminal.tasks.new_task import new_task

MakeAnswers = Callable[..., Answers]


@pytest.fixture
def answers(tmp_path: Path) -> MakeAnswers:
    """`answers(gpus=8, …)`: without anything, three tasks and no GPU."""
    for name in ("count-lines", "sort-names", "make-folder"):
        new_task(tmp_path / "tasks" / name)
    plain = Answers("own", tmp_path / "tasks", 0, "", "t1-tiny", "ppo")

    def make(**changes: Any) -> Answers:
        return replace(plain, **changes)

    return make
