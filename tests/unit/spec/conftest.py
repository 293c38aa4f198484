"""A loadable experiment to break in one place at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.load import load_experiment

BASE = """\
name: trial
presets:
  - model/qwen3-30b-a3b
  - hardware/laptop
  - topology/embedded
  - algorithm/ppo-t1
  - tasks/quickstart-pool
  - reward/ctrf-count-20
  - sandbox/local
rollout:
  num_rollouts: 2
  batch_size: 4
  context_tokens: 512
  max_new_tokens_per_turn: 48
  max_turns: 4
  observation_tokens: 64
  trial_wall_seconds: 60
  command_timeout_seconds: 10
"""

Break = Callable[..., list[Diagnostic]]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write text as experiment.yaml in an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def _write(text: str) -> Path:
        path = tmp_path / "experiment.yaml"
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def problems(write: Callable[[str], Path]) -> Break:
    """Load a text with overrides and return what is wrong with it; it must be wrong."""

    def _problems(text: str, *overrides: str) -> list[Diagnostic]:
        with pytest.raises(BadInput) as refused:
            load_experiment(write(text), overrides)
        return list(refused.value.diagnostics)

    return _problems


@pytest.fixture
def base() -> str:
    """An experiment that loads."""
    return BASE
