"""A spec with five different mistakes gets five located messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app

SPEC = """\
name: five
presets:
  - model/t1-tiny
  - hardware/labtop
  - topology/embedded
  - algorithm/ppo-t1
  - tasks/quickstart-pool
  - reward/ctrf-count-20
  - sandbox/local
rollout:
  num_rollouts: 2
  batch_size: four
  context_tokens: 512
  max_new_tokens_per_turn: 48
  max_turns: 4
  max_turns: 5
  observation_tokens: 64
  trial_wall_seconds: 1:30
sandbox:
  capcity: 8
"""
GOLDEN = """\
error: `max_turns` stands twice, on lines 15 and 16
  --> five.yaml:16:3
    |   max_turns: 5
  hint: remove one of them
error: no preset `hardware/labtop`
  --> five.yaml:4:5
    |   - hardware/labtop
  hint: did you mean `hardware/laptop`?
error: `rollout.batch_size` must be a whole number, found "four"
  --> five.yaml:12:3
    |   batch_size: four
error: `rollout.trial_wall_seconds` must be a number, found "1:30"
  --> five.yaml:18:3
    |   trial_wall_seconds: 1:30
  hint: write plain numbers: 90 if 1:30 is minutes:seconds, 5400 if hours:minutes
error: unknown key `capcity` in `sandbox` (kind: local)
  --> five.yaml:20:3
    |   capcity: 8
  hint: did you mean `capacity`?
5 errors
"""


@pytest.mark.parametrize("command", ["plan", "preflight"])
def test_five_mistakes_five_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("five.yaml").write_text(SPEC)
    result = CliRunner().invoke(app, [command, "five.yaml"])
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", GOLDEN)
