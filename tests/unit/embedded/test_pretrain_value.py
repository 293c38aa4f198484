"""A critic fitted to saved rollouts explains later ones, and says what it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from t1cli.embedded.explained_variance import value_fit
from t1cli.embedded.first_weights import first_critic_weights
from t1cli.embedded.pretrain_value import CRITIC_FILE, MANIFEST, Asked, cold_critic, pretrain_value, split_rollouts
from t1cli.embedded.trainer import Trainer
from t1cli.embedded.value_regression import fit_on, targets
from t1cli.embedded.weights import read_weights
from t1cli.errors import BadInput
from t1cli.run.directory import RunDirectory
from t1cli.run.save_directories import SaveDirectories
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.store import save_rows

MakeSpec = Callable[..., ExperimentSpec]
MakeRows = Callable[..., list[TrainingRow]]
FITTING = ("engine.warm_start=random", "algorithm.critic.learning_rate=5e-3")


@pytest.fixture
def finished(tmp_path: Path, synthetic_rows: MakeRows) -> Callable[..., RunDirectory]:
    """A run whose rewards the first token of a prompt decides; `equal` leaves nothing to explain."""

    def make(rollouts: int = 7, *, equal: bool = False) -> RunDirectory:
        run = RunDirectory(tmp_path / f"runs/made-up-{rollouts}-{equal}/attempt_1")
        for number in range(rollouts):
            rows = []
            for index, row in enumerate(synthetic_rows(24, seed=number)):
                tokens = row.tokens.copy()
                tokens[0] = 10 + index % 2
                rows.append(replace(row, tokens=tokens, reward=0.1 if equal else 0.1 + 0.2 * (index % 2)))
            save_rows(run.rollouts / f"rollout_{number:06d}.npz", rows)
        run.metrics_jsonl.write_text(
            json.dumps({"time": 1.0, "train/step": 0, "train/explained_variance": -33.6}) + "\n"
        )
        return run

    return make


@pytest.mark.catalogue("C1")
def test_held_back_rollouts_are_explained_and_the_next_campaign_starts_from_there(
    tiny_spec: MakeSpec, finished: Callable[..., RunDirectory], tmp_path: Path
) -> None:
    spec, run, lines = tiny_spec(*FITTING), finished(), list[str]()
    made = pretrain_value(run, spec, Asked(tmp_path / "out", held_back=2, epochs=8, batch=12), lines.append)
    assert (made.fitted_rollouts, made.choosing_rollouts, made.held_back_rollouts) == ((0, 1, 2, 3), (4,), (5, 6))
    assert made.cold.explained_variance == 0.0 and made.cold.starts_cold
    assert made.better and made.pretrained.explained_variance is not None
    assert made.pretrained.explained_variance > 0.8 and not made.pretrained.starts_cold
    assert made.own_step_0 == -33.6
    assert "48 are held back" in lines[0] and 0 < made.epoch < len(lines) <= 9
    written = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert written["pretrained"]["explained_variance"] == made.pretrained.explained_variance
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [CRITIC_FILE, MANIFEST]

    named = tiny_spec(*FITTING, f"model.checkpoints.warm_critic={made.output}")
    trainer = Trainer(
        named, SaveDirectories(tmp_path / "a", tmp_path / "c"), critic_weights=first_critic_weights(named)
    )
    held_back = [row for rows in split_rollouts(run, 2).held_back.values() for row in rows]
    assert trainer._critic is not None
    assert fit_on(trainer._critic.model, held_back).explained_variance == made.pretrained.explained_variance


def test_a_fit_that_gets_no_better_ends_after_three_epochs(
    tiny_spec: MakeSpec, finished: Callable[..., RunDirectory], tmp_path: Path
) -> None:
    lines = list[str]()
    run = finished(3, equal=True)
    made = pretrain_value(run, tiny_spec(*FITTING), Asked(tmp_path / "out", epochs=10), lines.append)
    assert made.epoch == 0 and not made.better and lines[-1].startswith("epoch 3: ")


def test_a_cold_critic_is_the_trainers(tiny_spec: MakeSpec, tmp_path: Path) -> None:
    spec = tiny_spec("engine.warm_start=random")
    trainer = Trainer(spec, SaveDirectories(tmp_path / "a", tmp_path / "c"))
    assert trainer._critic is not None
    own = trainer._critic.model.state_dict()
    assert all(torch.equal(own[name], weight) for name, weight in cold_critic(spec).state_dict().items())


def test_equal_returns_leave_nothing_to_explain(
    tiny_spec: MakeSpec, finished: Callable[..., RunDirectory], tmp_path: Path
) -> None:
    run = finished(3, equal=True)
    made = pretrain_value(run, tiny_spec(*FITTING), Asked(tmp_path / "out", epochs=1), lambda line: None)
    assert made.pretrained.explained_variance is None and made.cold.starts_cold is None and not made.better
    assert made.to_json()["epoch"] == 0


def test_what_cannot_be_fitted_is_said_and_nothing_is_written(
    tiny_spec: MakeSpec, finished: Callable[..., RunDirectory], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(BadInput, match="2 saved rollouts, 1 held back and 1 to choose by leave none to learn from"):
        pretrain_value(finished(2), tiny_spec(*FITTING), Asked(out), lambda line: None)
    with pytest.raises(BadInput, match="leave none to learn from"):
        split_rollouts(finished(3), 0)
    with pytest.raises(BadInput, match="grpo has no critic"):
        grpo = load_experiment(Path("qwen3-8b-grpo")).spec.algorithm
        pretrain_value(finished(3), tiny_spec().model_copy(update={"algorithm": grpo}), Asked(out), lambda line: None)
    assert not out.exists()
    out.mkdir()
    (out / CRITIC_FILE).write_bytes(b"somebody's")
    with pytest.raises(BadInput, match="there is a critic already"):
        pretrain_value(finished(3), tiny_spec(*FITTING), Asked(out), lambda line: None)
    assert (out / CRITIC_FILE).read_bytes() == b"somebody's"


def test_an_interrupted_write_leaves_no_half_critic(
    tiny_spec: MakeSpec, finished: Callable[..., RunDirectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from t1cli.embedded import pretrain_value as module

    def cut_off(path: Path, *rest: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "save_weights", cut_off)
    with pytest.raises(KeyboardInterrupt):
        pretrain_value(finished(3), tiny_spec(*FITTING), Asked(tmp_path / "out", epochs=1), lambda line: None)
    assert not (tmp_path / "out" / CRITIC_FILE).exists() and not (tmp_path / "out" / MANIFEST).exists()


def test_discounted_returns_fall_towards_the_prompt(synthetic_rows: MakeRows) -> None:
    from t1cli.embedded.batches import micro_batches

    row = replace(synthetic_rows(1, seed=0)[0], reward=1.0)
    (batch,) = micro_batches([row], max_tokens=4096, replay=False)
    inside = batch.response[0]
    found = targets(batch, 0.5)[0][inside]
    torch.testing.assert_close(found, 0.5 ** torch.arange(len(found) - 1, -1, -1, dtype=torch.float32))
    assert targets(batch, 1.0)[0][inside].eq(1).all()


def test_cold_starts_are_told_from_the_first_fit() -> None:
    returns, owner = np.asarray([0.0, 1.0, 2.0, 3.0], np.float32), np.arange(4)

    def cold(values: list[float]) -> bool | None:
        return value_fit(np.asarray(values, np.float32), returns, owner).starts_cold

    assert cold([9.0, -9.0, 9.0, -9.0]) and cold([0.0, 0.0, 0.0, 0.0])
    assert cold([0.1, 0.9, 2.0, 3.0]) is False
    assert cold([100.1, 100.9, 102.0, 103.0]) is False  # an offset is no cold start: the means show it
    assert value_fit(returns, np.ones(4, np.float32), owner).starts_cold is None


def test_the_written_critic_is_one_of_the_specs_network(
    tiny_spec: MakeSpec, finished: Callable[..., RunDirectory], tmp_path: Path
) -> None:
    spec = tiny_spec(*FITTING)
    made = pretrain_value(finished(3), spec, Asked(tmp_path / "out", epochs=1), lambda line: None)
    read_weights(Path(made.output), cold_critic(spec).config, head="value")
