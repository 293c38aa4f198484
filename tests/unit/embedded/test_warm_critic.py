"""A critic learns its trials' rewards, and starts a trainer only where the spec names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from t1cli.embedded.first_weights import SHIPPED, SHIPPED_CRITIC, first_critic_weights, first_weights
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.trainer import Trainer
from t1cli.embedded.value_regression import Settings, explained_variance, fit_values
from t1cli.embedded.weights import read_config, read_weights, save_weights
from t1cli.errors import BadInput
from t1cli.run.save_directories import SaveDirectories
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.trajectory.row import TrainingRow


@pytest.mark.catalogue("C1")
def test_values_explain_rewards_that_the_prompt_decides(
    tiny_spec: Callable[..., ExperimentSpec], synthetic_rows: Callable[..., list[TrainingRow]]
) -> None:
    rows = []
    for index, row in enumerate(synthetic_rows(120, seed=1)):
        tokens = row.tokens.copy()
        tokens[0] = 10 + index % 2
        rows.append(replace(row, tokens=tokens, reward=0.1 + 0.2 * (index % 2)))
    model = TinyMoE(TinyMoEConfig.from_architecture(tiny_spec().model.architecture), head="value", seed=0)
    settings = Settings(epochs=6, batch=20, learning_rate=5e-3)
    assert explained_variance(model, rows[:40]) <= 0.0
    fit = fit_values(model, rows[40:], rows[:40], settings, seed=0)
    assert fit.explained_variance > 0.8
    assert explained_variance(fit.model, rows[:40]) == pytest.approx(fit.explained_variance)


def test_a_named_critic_is_loaded_and_must_fit(tiny_spec: Callable[..., ExperimentSpec], tmp_path: Path) -> None:
    spec = tiny_spec()
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    critic = TinyMoE(config, head="value", seed=9)
    torch.nn.init.ones_(critic.head.weight)  # type: ignore[union-attr]
    save_weights(tmp_path / "critic.safetensors", critic.state_dict(), config)
    directories = SaveDirectories(tmp_path / "actor", tmp_path / "critic")
    trainer = Trainer(spec, directories, critic_weights=tmp_path / "critic.safetensors")
    assert trainer._critic is not None
    loaded = trainer._critic.model.state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in critic.state_dict().items())
    save_weights(tmp_path / "actor.safetensors", TinyMoE(config).state_dict(), config)
    with pytest.raises(BadInput, match=r"head\.weight"):
        Trainer(spec, directories, critic_weights=tmp_path / "actor.safetensors")


def test_the_shipped_critic_goes_with_the_shipped_actor_only(tiny_spec: Callable[..., ExperimentSpec]) -> None:
    shipped = "model.checkpoints.warm_critic=shipped"
    assert first_critic_weights(tiny_spec(shipped)) == SHIPPED_CRITIC
    assert first_critic_weights(tiny_spec(shipped, "engine.warm_start=random")) is None
    assert first_critic_weights(tiny_spec("model.checkpoints.warm_critic=null")) is None
    with pytest.raises(BadInput, match="no critic at"):
        first_critic_weights(tiny_spec("model.checkpoints.warm_critic=/nowhere/critic.safetensors"))


def test_what_is_shipped_fits_the_preset(tiny_spec: Callable[..., ExperimentSpec]) -> None:
    from t1cli.spec.load import load_experiment

    spec = load_experiment(Path("quickstart")).spec
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    assert first_weights(spec) == SHIPPED
    for path, head in ((SHIPPED, "lm"), (SHIPPED_CRITIC, "value")):
        assert read_config(path) == config
        read_weights(path, config, head=head)  # type: ignore[arg-type]
