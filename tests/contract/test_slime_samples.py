"""slime's own Sample and its own flattening on our rows, at every version with a table. SLIME_CHECKOUT=PATH runs it."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from t1cli.plugin import group_rewards
from t1cli.plugin.to_sample import Siblings, lost_sample, to_samples, unit_of
from t1cli.spec.algorithm import GRPO
from t1cli.terminal.trajectory.row import Audit, TrainingRow

CHECKOUT = os.environ.get("SLIME_CHECKOUT", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHECKOUT, reason="no slime checkout: SLIME_CHECKOUT=PATH"),
]


@pytest.fixture
def sample_class(monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    monkeypatch.syspath_prepend(CHECKOUT)
    yield importlib.import_module("slime.utils.types").Sample
    for name in [name for name in sys.modules if name == "slime" or name.startswith("slime.")]:
        del sys.modules[name]


def row(trial: str, group: int, reward: float) -> TrainingRow:
    return TrainingRow(
        trial_id=trial,
        group_id=group,
        task="t",
        family="f",
        tokens=np.arange(8, dtype=np.int32),
        response_start=3,
        loss_mask=np.asarray([0, 0, 0, 1, 1, 0, 1, 1], dtype=np.uint8),
        log_probs=np.full(8, -0.5, dtype=np.float32),
        routed_experts=np.zeros((7, 2, 2), dtype=np.uint8),
        reward=reward,
        outcome="scored",
        weight_versions=(3,),
        stop="done",
        audit=Audit(turns=2),
    )


def function_of(path: str, name: Callable[[str], bool], **known: Any) -> Callable[..., Any]:
    """One function of a file of the checkout, without the imports of its module."""
    tree = ast.parse((Path(CHECKOUT) / path).read_text())
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and name(node.name)]
    found.returns = None
    for argument in found.args.args:
        argument.annotation = None
    module = ast.Module(body=[found], type_ignores=[])
    exec(compile(module, path, "exec"), known)
    return known[found.name]  # type: ignore[no-any-return]


ROWS = [row("a", 0, 1.0), row("b", 0, 0.0), row("b", 0, 0.0), row("c", 1, 1.0), row("c", 1, 1.0), row("d", 1, 0.0)]
"""Two groups of two trials; the first begins with a trial of one row, the second with one of two."""


@pytest.mark.parametrize("rows", [ROWS, ROWS[3:] + ROWS[:3]], ids=["one row first", "two rows first"])
def test_slime_takes_trials_of_one_row_and_of_several(sample_class: type, rows: list[TrainingRow]) -> None:
    nested: Any = to_samples(rows, first_index=100, with_routing=True)
    checks = function_of(
        "slime/ray/rollout.py", lambda name: name.startswith("_validate_") and name.endswith("_annotated"),
        Sample=sample_class,
    )  # fmt: skip
    checks(nested)
    while isinstance(nested[0], list):  # as RolloutManager does
        nested = [inner for outer in nested for inner in outer]
    assert all(isinstance(sample, sample_class) for sample in nested)
    units = {(sample.metadata["trial_id"], unit_of(sample)) for sample in nested}
    assert sorted(trial for trial, _ in units) == ["a", "b", "c", "d"] and len(dict(map(reversed, units))) == 4


def test_the_fully_async_loop_sorts_what_a_trial_becomes(sample_class: type) -> None:
    key = function_of("slime/rollout/fully_async_rollout.py", lambda name: name == "_key")
    made = [Siblings([sample_class(index=index), sample_class(index=index)]) for index in (4, 5)]
    assert key(made) == 4
    with pytest.raises(TypeError):
        key([list(made[0])])


def test_shaped_rewards_and_a_lost_trial(sample_class: type, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SimpleNamespace(spec=SimpleNamespace(algorithm=GRPO.model_construct(normalize_std=True)))
    monkeypatch.setattr(group_rewards, "settings_of", lambda args: settings)
    samples = [s for group in to_samples(ROWS, first_index=0, with_routing=False) for trial in group for s in trial]
    raw, shaped = group_rewards.raw_and_shaped(Namespace(reward_key=None), samples)
    assert raw == [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    assert shaped[1] == shaped[2] == -shaped[0] and shaped[3] == shaped[4] == -shaped[5] and shaped[0] > 0
    lost = lost_sample(sample_class(index=3, group_index=1))
    assert unit_of(lost) == 3 and lost.remove_sample and lost.reward == 0.0 and len(lost.loss_mask) == 1


def test_a_mask_is_cut_as_log_probs_are() -> None:
    cut = function_of("slime/backends/megatron_utils/cp_utils.py", lambda name: name == "slice_log_prob_with_cp",
                      mpu=SimpleNamespace(get_context_parallel_world_size=lambda: 1))  # fmt: skip
    assert cut([1, 0, 1], 8, 3) == [1, 0, 1]
