"""The trainer: both roles, the behaviour snapshots, one step per rollout, publishing and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from t1cli.embedded.advantages import group_advantages
from t1cli.embedded.batches import MicroBatch, micro_batches
from t1cli.embedded.checkpoint import Progress, RoleState, newest_common, prune, read_checkpoint, write_checkpoint
from t1cli.embedded.losses import RatioClip
from t1cli.embedded.metrics import Metrics
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.ppo import ActorSettings, actor_pass, behaviour_log_probs, critic_pass
from t1cli.embedded.role import Role, load_optimizer_tensors, make_role, optimizer_tensors
from t1cli.embedded.routing_study import free_routing_metrics, mismatch
from t1cli.embedded.weights import read_weights
from t1cli.errors import Refused, T1Error
from t1cli.run.metric_names import ROUTED_TOKENS
from t1cli.run.save_directories import SaveDirectories
from t1cli.spec.algorithm import PPO
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.trajectory.mismatch import refuse_first_gap, total
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.versions import LagRule, lag_rule, require_spans

_RANDOM_STATE = "random_state"
_CRITIC_SEED_OFFSET = 1


@dataclass(frozen=True)
class SavedRole:
    """One role's finished checkpoint."""

    role: str
    next_rollout: int
    path: str
    bytes: int


class Trainer:
    """Owns the actor and (under PPO) the critic. Version 0 is what it starts with; each rollout trained adds one."""

    def __init__(
        self,
        spec: ExperimentSpec,
        directories: SaveDirectories,
        *,
        actor_weights: Path | None = None,
        critic_weights: Path | None = None,
        threads: int = 1,
    ) -> None:
        """`actor_weights` None starts from the seeded random initialisation; a cold critic takes the actor's trunk."""
        torch.set_num_threads(threads)
        torch.manual_seed(spec.seed)
        self._spec, self._directories = spec, directories
        self._version = self._next_rollout = 0
        self._between_steps = True
        self._gap_was_checked = False
        self._actor = _make_actor(spec, actor_weights)
        self._critic = _make_critic(spec, self._actor.model, critic_weights)
        self._snapshots: dict[int, dict[str, Tensor]] = {}
        self._behaviour = TinyMoE(self._actor.model.config) if keeps_old_actor(spec) else None

    def train(self, rollout_id: int, rows: Sequence[TrainingRow]) -> Metrics:
        """One step per role on one rollout's rows; slime's metric names, seconds under `perf/`."""
        self._between_steps = False
        started = time.monotonic()
        versions = _versions(rows, lag_rule(self._spec.rollout))
        batches = micro_batches(
            rows, max_tokens=self._spec.trainer.max_tokens_per_gpu, replay=self._spec.rollout.routing_replay
        )
        metrics: Metrics = {"train/staleness": self._version - versions[0], **_row_metrics(rows)}
        advantages = self._advantages(rows, batches, metrics)
        if not self._critic_only(rollout_id):
            self._train_actor(batches, advantages, versions, metrics)
        self._version += 1
        self._next_rollout = rollout_id + 1
        self._between_steps = True
        metrics["perf/train_time"] = time.monotonic() - started
        return metrics

    def publish(self) -> dict[str, Tensor]:
        """The actor's weights for the server; the behaviour snapshots rotate here, inside the caller's barrier.

        Kept are what is published now and its predecessor, which sampled the batch that is still to be trained, or as
        many as trials may go on over.
        """
        oldest = self._version - max(1, self._spec.rollout.max_staleness)
        weights = {name: tensor.detach().clone() for name, tensor in self._actor.model.state_dict().items()}
        if self._behaviour is not None:
            self._snapshots = {at: state for at, state in self._snapshots.items() if at >= oldest}
            self._snapshots[self._version] = weights
        return weights

    def version(self) -> int:
        """Version of the actor's weights: rollouts trained on since the campaign began."""
        return self._version

    def save(self, score: float | None) -> tuple[SavedRole, ...]:
        """Write a checkpoint of every role as it stands after the last trained rollout, then apply retention.

        Raises T1Error after a step that failed half-way: its critic may have moved on and its actor not.
        """
        if not self._between_steps:
            raise T1Error("a training step failed half-way; the last checkpoint stays what it is")
        progress = Progress(self._next_rollout, self._version, score)
        full = self._spec.checkpoint.what == "full"
        saved = []
        for role, directory in self._places():
            path = write_checkpoint(directory, _role_state(role, progress, full=full))
            size = sum(file.stat().st_size for file in path.iterdir())
            saved.append(SavedRole(role.name, progress.next_rollout, str(path), size))
        retention = self._spec.checkpoint.retention
        prune(self._directories.every, keep_latest=retention.keep_latest, keep_best=retention.keep_best)
        return tuple(saved)

    def load(self) -> Progress | None:
        """Go on from the newest iteration that every role has complete; None when there is none yet.

        Raises Refused when it holds weights alone: without Adam's state a resumed run is another run.
        """
        iteration = newest_common(self._directories.every)
        if iteration is None:
            return None
        for role, directory in self._places():
            state = read_checkpoint(directory, iteration, role=role.name)
            _restore(role, state)
        self._version, self._next_rollout = state.progress.weight_version, state.progress.next_rollout
        self._snapshots.clear()
        return state.progress

    def _places(self) -> tuple[tuple[Role, Path], ...]:
        """Each role with the directory it saves into."""
        if self._critic is None or self._directories.critic is None:
            return ((self._actor, self._directories.actor),)
        return (self._actor, self._directories.actor), (self._critic, self._directories.critic)

    def _critic_only(self, rollout_id: int) -> bool:
        algorithm = self._spec.algorithm
        return isinstance(algorithm, PPO) and rollout_id < algorithm.critic.critic_only_steps

    def _advantages(
        self, rows: Sequence[TrainingRow], batches: Sequence[MicroBatch], metrics: Metrics
    ) -> Sequence[Tensor]:
        algorithm = self._spec.algorithm
        if isinstance(algorithm, PPO):
            assert self._critic is not None
            started = time.monotonic()
            advantages, critic_metrics = critic_pass(self._critic, batches, algorithm)
            metrics |= critic_metrics
            metrics["perf/critic_train_time"] = time.monotonic() - started
            return advantages
        per_row = torch.tensor(group_advantages(rows, algorithm), dtype=torch.float32)
        return [per_row[list(batch.row_indices), None] * batch.response for batch in batches]

    def _train_actor(
        self, batches: Sequence[MicroBatch], advantages: Sequence[Tensor], versions: Sequence[int], metrics: Metrics
    ) -> None:
        settings = _actor_settings(self._spec)
        started = time.monotonic()
        old = self._old_log_probs(batches, versions, settings.temperature)
        metrics["perf/log_probs_time"] = time.monotonic() - started
        self._gate_first_step(batches, old)
        metrics |= free_routing_metrics(self._behaviour_model(versions[-1]), batches, settings.temperature)
        started = time.monotonic()
        metrics |= actor_pass(self._actor, batches, advantages, old, settings)
        metrics["perf/actor_train_time"] = time.monotonic() - started

    def _old_log_probs(
        self, batches: Sequence[MicroBatch], versions: Sequence[int], temperature: float
    ) -> list[Tensor]:
        """Log-probs (B, P) per micro-batch, of every token under the weights that sampled it."""
        old = behaviour_log_probs(self._behaviour_model(versions[0]), batches, temperature)
        for version in versions[1:] if self._behaviour is not None else ():
            newer = behaviour_log_probs(self._behaviour_model(version), batches, temperature)
            old = [
                torch.where(batch.versions == version, new, before)
                for batch, new, before in zip(batches, newer, old, strict=True)
            ]
        return old

    def _gate_first_step(self, batches: Sequence[MicroBatch], old: Sequence[Tensor]) -> None:
        """Whatever sampled the first batch of a session holds the trainer's own weights, so the gap must be small."""
        if not self._gap_was_checked:
            found = total(mismatch(batch, mine) for batch, mine in zip(batches, old, strict=True))
            refuse_first_gap(found, self._spec.rollout.first_gap_limit)
            self._gap_was_checked = True

    def _behaviour_model(self, sampled_by: int) -> TinyMoE:
        """The network that sampled the batch: the live actor, or a snapshot when the pipeline runs ahead."""
        if self._behaviour is None:
            return self._actor.model
        if sampled_by not in self._snapshots:
            raise RuntimeError(
                f"the batch was sampled by weights {sampled_by}, snapshots exist of {sorted(self._snapshots)}"
            )
        self._behaviour.load_state_dict(self._snapshots[sampled_by])
        return self._behaviour


def keeps_old_actor(spec: ExperimentSpec) -> bool:
    """Whether old log-probs come from a snapshot: as the spec says, else whenever older weights may have sampled."""
    asked = spec.algorithm.keep_old_actor if isinstance(spec.algorithm, PPO) else None
    older = spec.rollout.pipeline != "sync" or spec.rollout.unfinished == "continue"
    return older if asked is None else asked


def _make_actor(spec: ExperimentSpec, weights: Path | None) -> Role:
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    model = TinyMoE(config, seed=spec.seed)
    if weights is not None:
        model.load_state_dict(read_weights(weights, config))
    algorithm = spec.algorithm
    return make_role("actor", model, learning_rate=algorithm.actor_learning_rate, adam=algorithm.adam)


def _make_critic(spec: ExperimentSpec, actor: TinyMoE, weights: Path | None) -> Role | None:
    if not isinstance(spec.algorithm, PPO):
        return None
    model = TinyMoE(actor.config, head="value", seed=spec.seed + _CRITIC_SEED_OFFSET)
    if weights is None:
        model.load_trunk(actor.state_dict())
    else:
        model.load_state_dict(read_weights(weights, actor.config, head="value"))
    return make_role("critic", model, learning_rate=spec.algorithm.critic.learning_rate, adam=spec.algorithm.adam)


def _actor_settings(spec: ExperimentSpec) -> ActorSettings:
    algorithm = spec.algorithm
    high = algorithm.clip if isinstance(algorithm, PPO) else algorithm.clip_high or algorithm.clip
    return ActorSettings(RatioClip(algorithm.clip, high), spec.rollout.temperature, algorithm.correction.clip)


def _versions(rows: Sequence[TrainingRow], rule: LagRule) -> tuple[int, ...]:
    """The weight versions that sampled a batch, the oldest first. Raises T1Error when they lie too far apart."""
    require_spans(rows, rule)
    versions = {version for row in rows for version in row.weight_versions}
    if not versions:
        raise RuntimeError("no row of the batch says which weights sampled it")
    return tuple(sorted(versions))


def _row_metrics(rows: Sequence[TrainingRow]) -> Metrics:
    """slime's means over the trained batch that the rows alone decide."""
    trained = sum(int(row.loss_mask.sum()) for row in rows)
    routed = sum(int(row.loss_mask.sum()) for row in rows if row.routed_experts is not None)
    return {
        "rollout/rewards": sum(row.reward for row in rows) / len(rows),
        "rollout/response_lengths": sum(len(row.tokens) - row.response_start for row in rows) / len(rows),
        "rollout/total_lengths": sum(len(row.tokens) for row in rows) / len(rows),
        "train/global_batch_size": len({row.trial_id for row in rows}),
        "train/trained_tokens": trained,
        ROUTED_TOKENS: routed / max(trained, 1),
    }


def _role_state(role: Role, progress: Progress, *, full: bool) -> RoleState:
    optimizer = {**optimizer_tensors(role), _RANDOM_STATE: torch.get_rng_state()} if full else None
    return RoleState(role.name, role.model.config, role.model.state_dict(), optimizer, progress)


def _restore(role: Role, state: RoleState) -> None:
    if state.optimizer is None:
        raise Refused(
            f"the {role.name}'s checkpoint holds weights alone, so this campaign cannot go on where it stopped",
            where="checkpoint.what",
            hint="launch it anew, with checkpoint.what=full if a crash should mean resume",
        )
    tensors = dict(state.optimizer)
    torch.set_rng_state(tensors.pop(_RANDOM_STATE))
    role.model.load_state_dict(dict(state.weights))
    load_optimizer_tensors(role, tensors)
