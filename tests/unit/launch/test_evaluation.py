"""Counts first, then the mean; intervals over tasks; slime's eval-only command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.launch.evaluation import Measured, summarise


@pytest.mark.catalogue("C10")
def test_a_mean_stands_beside_its_counts() -> None:
    solved = {"a": [1.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 0.0]}
    found = summarise("tb", "/w", Measured(9, solved, [1.0, 0.5]))
    assert (found.scheduled, found.scored, found.solved, found.complete) == (9, 6, 3, False)
    assert found.solved_rate == pytest.approx(0.5) and found.mean_reward == 0.75
    assert found.spread == pytest.approx(abs(1 / 3 - 2 / 3) / 2**0.5)
    low, high = found.interval
    assert low == 0.0 and high == 1.0


def test_nothing_scored_is_no_zero() -> None:
    found = summarise("tb", "/w", Measured(3, {}, []))
    assert found.solved_rate is None and found.mean_reward is None and found.interval is None


def test_slime_gets_an_eval_only_run(tmp_path: Path) -> None:
    arguments = ["eval", "/ckpt/actor", "t1-strategy15k", "--json", "--runs-dir", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    argv = json.loads(answer.stdout)["argv"]
    assert argv[0].endswith("train.py") and argv[argv.index("--num-rollout") + 1] == "0"
    assert argv[argv.index("--load") + 1] == "/ckpt/actor" and argv.count("--load") == 1
    assert "--save" not in argv and "--eval-interval" in argv
    assert list(tmp_path.iterdir()) == []
