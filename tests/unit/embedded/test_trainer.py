"""One step of the trainer: its order, its snapshots, and a resume that changes no bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from t1cli.embedded.batches import micro_batches
from t1cli.embedded.trainer import Trainer
from t1cli.errors import Refused, T1Error
from t1cli.run.directory import RunDirectory
from t1cli.run.save_directories import save_directories
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.trajectory.row import TrainingRow, TurnRecord

MakeSpec = Callable[..., ExperimentSpec]
MakeRows = Callable[..., list[TrainingRow]]


def trainer_in(path: Path, spec: ExperimentSpec) -> Trainer:
    return Trainer(spec, save_directories(spec, RunDirectory(path / "attempt_1")))


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    """Both roles' weights and Adam moments."""
    found = {}
    for role, _ in trainer._places():
        for name, tensor in role.model.state_dict().items():
            found[f"{role.name}.{name}"] = tensor.clone()
        for name, parameter in role.model.named_parameters():
            for key, value in role.optimizer.state[parameter].items():
                found[f"{role.name}.{key}.{name}"] = value.clone()
    return found


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_four_rollouts_straight_equal_two_and_two_after_a_resume(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    spec = tiny_spec("algorithm.actor_learning_rate=0.001")
    batches = [synthetic_rows(6, seed=seed, version=seed) for seed in range(4)]
    straight = trainer_in(tmp_path / "straight", spec)
    for rollout, rows in enumerate(batches):
        straight.train(rollout, rows)
    first = trainer_in(tmp_path / "resumed", spec)
    for rollout in (0, 1):
        first.train(rollout, batches[rollout])
    first.save(score=None)
    first.train(2, synthetic_rows(6, seed=9, version=2))
    second = trainer_in(tmp_path / "resumed", spec.model_copy(update={"seed": 5}))
    progress = second.load()
    assert progress is not None and (progress.next_rollout, progress.weight_version) == (2, 2)
    for rollout in (2, 3):
        second.train(rollout, batches[rollout])
    assert equal(weights_of(second), weights_of(straight))
    assert not equal(weights_of(first), weights_of(straight))


def test_sync_old_log_probs_equal_the_first_forward(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    metrics = trainer_in(tmp_path, tiny_spec()).train(0, synthetic_rows(6, seed=1))
    assert abs(metrics["train/ppo_kl"]) < 1e-7 and metrics["train/pg_clipfrac"] == 0.0
    assert metrics["train/ois"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["train/staleness"] == 0
    assert metrics["train/entropy_loss"] == pytest.approx(math.log(64), rel=0.1)
    assert metrics["train/tis"] > 0 and math.isfinite(metrics["train/explained_variance"])


@pytest.mark.catalogue("F6")
def test_the_log_prob_gap_is_a_mean_over_tokens(tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows) -> None:
    """However the batch is cut; a reducer with another denominator changes with the cut."""
    rows = synthetic_rows(8, seed=2)
    found = [
        trainer_in(tmp_path, tiny_spec(f"trainer.max_tokens_per_gpu={limit}")).train(0, rows) for limit in (1, 10_000)
    ]
    for name in ("train/train_rollout_logprob_abs_diff", "train/pg_loss", "train/critic-value_loss", "train/grad_norm"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-3), name
    assert 0.1 < found[0]["train/train_rollout_logprob_abs_diff"] < 10


@pytest.mark.catalogue("F2")
def test_replay_constrains_the_actor_and_never_the_critic(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    rows = synthetic_rows(6, seed=3)
    other = [
        replace(row, routed_experts=(row.routed_experts + 1) % 4) for row in rows if row.routed_experts is not None
    ]
    with_rows, with_other, without = (
        trainer_in(tmp_path, tiny_spec(f"rollout.routing_replay={replay}")).train(0, batch)
        for replay, batch in (("true", rows), ("true", other), ("false", rows))
    )
    assert with_rows["rollout/log_probs"] != with_other["rollout/log_probs"]
    assert with_rows["rollout/values"] == with_other["rollout/values"] == without["rollout/values"]
    assert with_rows["train/critic-value_loss"] == without["train/critic-value_loss"]
    assert 0.0 < with_rows["train/routing_flipped_sets"] <= with_rows["train/routing_flipped_rows"] <= 1.0
    free = with_rows["train/train_rollout_logprob_abs_diff_free_routing"]
    assert free == pytest.approx(without["train/train_rollout_logprob_abs_diff"], rel=1e-5)
    assert "train/routing_flipped_sets" not in without


def test_critic_only_rollouts_leave_the_actor_alone(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    trainer = trainer_in(tmp_path, tiny_spec("algorithm.critic.critic_only_steps=1"))
    before = trainer.publish()
    metrics = trainer.train(0, synthetic_rows(4, seed=4))
    assert equal(before, trainer.publish()) and trainer.version() == 1
    assert "train/pg_loss" not in metrics and metrics["train/critic-grad_norm"] > 0
    trainer.train(1, synthetic_rows(4, seed=5, version=1))
    assert not equal(before, trainer.publish())


@pytest.mark.catalogue("C9")
def test_the_old_actor_is_the_snapshot_that_sampled(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    """Batch 1 was sampled by version 0, after which version 1 was published: its ratio starts away from 1."""
    spec = tiny_spec("rollout.pipeline=one_step", "rollout.max_staleness=1", "algorithm.actor_learning_rate=0.003")
    trainer = trainer_in(tmp_path, spec)
    trainer.publish()
    first = trainer.train(0, synthetic_rows(6, seed=6, version=0))
    trainer.publish()
    second = trainer.train(1, synthetic_rows(6, seed=7, version=0))
    assert first["train/staleness"] == 0 and abs(first["train/ppo_kl"]) < 1e-7
    assert second["train/staleness"] == 1 and abs(second["train/ppo_kl"]) > 1e-5
    trainer.publish()
    with pytest.raises(RuntimeError, match="snapshots exist of \\[1, 2\\]"):
        trainer.train(2, synthetic_rows(6, seed=8, version=0))


def test_a_batch_of_two_versions_is_an_error(tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows) -> None:
    rows = [*synthetic_rows(2, seed=1, version=0), *synthetic_rows(2, seed=2, version=1)]
    with pytest.raises(T1Error, match="batch: its turns were sampled by weight versions 0 to 1"):
        trainer_in(tmp_path, tiny_spec()).train(0, rows)


def over_two_versions(row: TrainingRow) -> TrainingRow:
    """The row as a trial leaves it that went on after new weights had come: one turn under 0, one under 1."""
    first = row.response_start
    second = first + 5
    turns = (TurnRecord(0, "strict", first, 3, 0), TurnRecord(1, "strict", second, len(row.tokens) - second, 0))
    return replace(row, weight_versions=(0, 1), audit=replace(row.audit, records=turns))


@pytest.mark.catalogue("C9")
def test_every_token_is_compared_with_the_weights_that_sampled_it(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    spec = tiny_spec("rollout.unfinished=continue", "rollout.max_staleness=1", "algorithm.actor_learning_rate=0.01")
    trainer = trainer_in(tmp_path, spec)
    trainer.publish()
    trainer.train(0, synthetic_rows(6, seed=6, version=0))
    trainer.publish()
    batches = micro_batches([over_two_versions(row) for row in synthetic_rows(6, seed=7)], max_tokens=99, replay=True)
    mixed, old, new = (trainer._old_log_probs(batches, versions, 1.0) for versions in ((0, 1), (0,), (1,)))
    for batch, found, before, after in zip(batches, mixed, old, new, strict=True):
        sampled = batch.loss_mask.bool()
        first, second = sampled & (batch.versions == 0), sampled & (batch.versions == 1)
        assert first.sum() == 3 * len(batch.row_indices) and torch.equal(first | second, sampled)
        assert torch.equal(found[first], before[first]) and torch.equal(found[second], after[second])
        assert not torch.equal(before[sampled], after[sampled])
    metrics = trainer.train(1, [over_two_versions(row) for row in synthetic_rows(6, seed=7)])
    assert metrics["train/staleness"] == 1 and abs(metrics["train/ppo_kl"]) > 1e-6
    with pytest.raises(ValueError, match="2 weight versions for 0 turns"):
        micro_batches([replace(synthetic_rows(1, seed=7)[0], weight_versions=(0, 1))], max_tokens=99, replay=True)


def test_weights_alone_are_no_ground_to_resume_on(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    spec = tiny_spec("checkpoint.what=weights")
    trainer = trainer_in(tmp_path, spec)
    assert trainer.load() is None
    trainer.train(0, synthetic_rows(4, seed=1))
    trainer.save(score=None)
    with pytest.raises(Refused, match="weights alone"):
        trainer_in(tmp_path, spec).load()


def test_a_step_that_failed_half_way_is_never_saved(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    """The critic has stepped when the actor's log-probs turn out to be useless."""
    trainer = trainer_in(tmp_path, tiny_spec())
    trainer.train(0, synthetic_rows(4, seed=1))
    trainer.save(score=None)
    good = weights_of(trainer)
    with torch.no_grad():
        trainer._actor.model.embed.weight[:] = math.nan
    with pytest.raises(T1Error, match="gradient norm is nan"):
        trainer.train(1, synthetic_rows(4, seed=2, version=1))
    with pytest.raises(T1Error, match="half-way"):
        trainer.save(score=None)
    again = trainer_in(tmp_path, tiny_spec())
    again.load()
    assert equal(weights_of(again), good)


def test_grpo_needs_no_critic(tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows) -> None:
    rows = [replace(row, group_id=row.group_id // 2) for row in synthetic_rows(6, seed=1)]
    spec = tiny_spec()
    grpo = ExperimentSpec.model_validate(
        {**spec.model_dump(), "algorithm": {"kind": "grpo", "actor_learning_rate": 1e-3}}
    )
    trainer = trainer_in(tmp_path, grpo)
    metrics = trainer.train(0, rows)
    assert metrics["train/grad_norm"] > 0 and "train/critic-value_loss" not in metrics
    assert [saved.role for saved in trainer.save(score=None)] == ["actor"]


@pytest.mark.catalogue("F2")
def test_a_gap_before_the_first_step_stops_the_session(
    tmp_path: Path, tiny_spec: MakeSpec, synthetic_rows: MakeRows
) -> None:
    """Log-probs that no such sampler gave: refused before the actor's step, and never again once it was passed."""
    trainer = trainer_in(tmp_path, tiny_spec("rollout.first_gap_limit=0.1"))
    before = trainer.publish()
    with pytest.raises(T1Error, match=r"before the first step .* 0\.1 is allowed"):
        trainer.train(0, synthetic_rows(4, seed=1))
    assert equal(before, trainer.publish())
    lenient = trainer_in(tmp_path, tiny_spec("rollout.first_gap_limit=100"))
    lenient.train(0, synthetic_rows(4, seed=1))
    lenient._spec = tiny_spec("rollout.first_gap_limit=0.1")
    assert lenient.train(1, synthetic_rows(4, seed=2, version=1))["train/routed_token_share"] == 1.0
