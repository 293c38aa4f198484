"""`t1 watch SOURCE --baseline NAME=SOURCE`: a rule compares with another run's history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app

PACK = """
rules:
  - name: behind-the-last-run
    metric: rollout/raw_reward
    window: 3
    below: 0.5
    baseline: {of: run, run: last, points: 3}
    severity: warning
"""


def csv(path: Path, rewards: list[float]) -> Path:
    path.write_text("step,rollout/raw_reward\n" + "".join(f"{i},{value}\n" for i, value in enumerate(rewards)))
    return path


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "pack.yaml"
    path.write_text(PACK)
    return path


@pytest.mark.parametrize(("other", "fires"), [([0.1] * 10, False), ([0.1] * 4 + [0.4] * 6, True)])
def test_a_rule_compares_with_another_history_at_the_same_step(
    tmp_path: Path, pack: Path, other: list[float], fires: bool
) -> None:
    now, last = csv(tmp_path / "now.csv", [0.1] * 10), csv(tmp_path / "last.csv", other)
    arguments = ["watch", str(now), "--replay", "--json", "--rules", str(pack), "--baseline", f"last={last}"]
    answer = CliRunner().invoke(app, arguments)
    (rule,) = json.loads(answer.stdout)["rules"]
    assert bool(rule["fired_at"]) is fires
    assert answer.exit_code == int(fires)


def test_what_is_no_pair_is_named(tmp_path: Path, pack: Path) -> None:
    now = csv(tmp_path / "now.csv", [0.1] * 4)
    answer = CliRunner().invoke(app, ["watch", str(now), "--replay", "--rules", str(pack), "--baseline", "last"])
    assert answer.exit_code == 2
    assert "'last': expected NAME=SOURCE" in answer.output
