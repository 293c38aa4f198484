"""The embedded engine refuses what it does not do, by plan and again at its own door."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.plan.build import build_plan
from t1cli.spec.embedded_engine import refuse_unsupported, unsupported
from t1cli.spec.load import load_experiment

QUICKSTART = Path(__file__).parents[3] / "experiments/quickstart/experiment.yaml"


def test_the_quickstart_asks_for_nothing_unsupported() -> None:
    assert unsupported(load_experiment(QUICKSTART).spec) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rollout.pipeline", "fully_async"),
        ("algorithm.kl_loss_coef", "0.01"),
        ("algorithm.kl_reward_coef", "0.01"),
        ("algorithm.entropy_coef", "0.01"),
        ("algorithm.aux_loss_coef", "0.01"),
        ("algorithm.normalize_advantages", "true"),
        ("algorithm.correction.kind", "apply"),
        ("algorithm.adam.lr_schedule", "cosine"),
        ("trainer.precision", "bf16"),
        ("rollout.harness", "terminus-2"),
    ],
)
def test_each_setting_without_an_effect_is_an_error(key: str, value: str) -> None:
    loaded = load_experiment(
        QUICKSTART, [f"{key}={value}", "rollout.max_staleness=2"][: 2 if value == "fully_async" else 1]
    )
    errors = [finding for finding in build_plan(loaded).findings if finding.id == "T-embedded"]
    assert [finding.severity for finding in errors] == ["error"] and errors[0].where == "--set"
    with pytest.raises(BadInput) as caught:
        refuse_unsupported(loaded.spec)
    assert [problem.where for problem in caught.value.diagnostics] == [key]
