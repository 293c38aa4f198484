"""Pairs of values that cannot both be meant. Judgement (is it wise? does it fit?) belongs to the plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from t1cli.errors import Diagnostic
from t1cli.spec.algorithm import GRPO, PPO
from t1cli.spec.checkpoint import CheckpointSpec
from t1cli.spec.diagnose import walk
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.evaluation import EvaluationSpec
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.hardware import HardwareSpec
from t1cli.spec.model import ModelSpec
from t1cli.spec.node import Node
from t1cli.spec.rollout import RolloutSpec
from t1cli.spec.topology import TopologySpec

B = TypeVar("B")


class Contradiction(NamedTuple):
    """A key, what is wrong with it, and how to end the contradiction."""

    key: str
    message: str
    hint: str


@dataclass(frozen=True)
class Blocks:
    """The blocks of a spec that are valid in themselves; a broken block silences only the rules that need it."""

    by_name: Mapping[str, Any]

    def get(self, name: str, kind: type[B]) -> B | None:
        """A block, if it is valid and of that kind."""
        block = self.by_name.get(name)
        return block if isinstance(block, kind) else None


Rule = Callable[[Blocks, Node], Iterator[Contradiction]]


def contradictions(plain: Mapping[str, Any], tree: Node) -> list[Diagnostic]:
    """Every contradiction between the valid blocks of a composed spec, each at the key that has to change."""
    whole = [name for name in plain if (node := tree.get(name)) is not None and not node.holds_refused()]
    blocks = Blocks({name: block for name in whole if (block := _valid(name, plain[name])) is not None})
    return [_located(found, tree) for rule in RULES for found in rule(blocks, tree)]


def _valid(name: str, value: Any) -> Any:
    field = ExperimentSpec.model_fields.get(name)
    if field is None or value is None:
        return None
    try:
        return TypeAdapter(_annotation(field)).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return None


def _annotation(field: FieldInfo) -> Any:
    if field.discriminator is None:
        return field.annotation
    return Annotated[field.annotation, Field(discriminator=field.discriminator)]


def _located(found: Contradiction, tree: Node) -> Diagnostic:
    place = walk(tree, found.key.split("."))[1].place
    return Diagnostic(found.message, place.exact, place.source_line, found.hint)


def _surplus(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    rollout = blocks.get("rollout", RolloutSpec)
    if rollout is None:
        return
    surplus = rollout.over_sampling_batch_size
    if surplus is not None and surplus < rollout.batch_size:
        yield Contradiction(
            "rollout.over_sampling_batch_size",
            f"over_sampling_batch_size {surplus} is below batch_size {rollout.batch_size}: the batch never fills",
            f"at least {rollout.batch_size}, or null for no surplus",
        )


def _groups(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    rollout, algorithm = blocks.get("rollout", RolloutSpec), blocks.get("algorithm", GRPO)
    if rollout is None or algorithm is None:
        return
    if rollout.samples_per_prompt < 2 and algorithm.loss == "policy_loss" and algorithm.estimator in _GROUP_BASELINES:
        yield Contradiction(
            "rollout.samples_per_prompt",
            "GRPO with one sample per prompt: the only sample is its own baseline, so every advantage is 0",
            "at least 2, or `algorithm.kind: ppo`",
        )
    samples = rollout.batch_size * rollout.samples_per_prompt
    if samples % algorithm.steps_per_rollout:
        yield Contradiction(
            "algorithm.steps_per_rollout",
            f"{samples} samples cannot be cut into {algorithm.steps_per_rollout} equal steps",
            "a divisor of batch_size × samples_per_prompt",
        )


def _staleness(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    rollout = blocks.get("rollout", RolloutSpec)
    if rollout is None:
        return
    lag, key = rollout.max_staleness, "rollout.max_staleness"
    block = tree.get("rollout")
    written = block is not None and block.get("max_staleness") is not None
    if rollout.unfinished == "continue":
        yield from _continued(rollout)
        return
    if rollout.pipeline == "sync" and lag > 0:
        yield Contradiction(key, f"max_staleness {lag} under `pipeline: sync`, which never lags", "0, or leave it out")
    if rollout.pipeline == "one_step" and (lag > 1 or (lag == 0 and written)):
        yield Contradiction(key, f"max_staleness {lag} under `pipeline: one_step`, which lags by exactly 1", "1")
    if rollout.pipeline == "fully_async" and lag == 0:
        yield Contradiction(key, "`pipeline: fully_async` with max_staleness 0 could never train", "at least 1")
    if rollout.pipeline == "fully_async" and rollout.unfinished == "repeat":
        yield Contradiction(
            "rollout.unfinished",
            "nothing is unfinished under `pipeline: fully_async`: its trials run on from batch to batch",
            "`drop`",
        )


def _continued(rollout: RolloutSpec) -> Iterator[Contradiction]:
    """`unfinished: continue`: who lets rows span weight versions, and by how many."""
    key = "rollout.unfinished"
    if rollout.pipeline == "fully_async":
        message = "nothing is unfinished under `pipeline: fully_async`: its trials run on from batch to batch"
        yield Contradiction(key, message, "`drop`")
        return
    least = 1 if rollout.pipeline == "sync" else 2
    if rollout.max_staleness < least:
        yield Contradiction(
            "rollout.max_staleness",
            f"`unfinished: continue` under `pipeline: {rollout.pipeline}` trains turns that are {least} weight "
            f"version{'s' if least > 1 else ''} old or older, max_staleness {rollout.max_staleness} forbids them",
            f"at least {least}, or `unfinished: repeat`",
        )


def _loop(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    engine, rollout = blocks.get("engine", SlimeEngine), blocks.get("rollout", RolloutSpec)
    if engine is None or rollout is None or engine.rollout_loop != "slime" or engine.from_script:
        return
    if rollout.unfinished == "continue" and rollout.pipeline != "fully_async":
        yield Contradiction(
            "rollout.unfinished",
            "slime's stock rollout aborts what is unfinished when it has enough, so nothing of it can `continue`",
            "`drop` or `repeat`, or `engine.rollout_loop: t1`",
        )


def _summary(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    rollout = blocks.get("rollout", RolloutSpec)
    if rollout is None:
        return
    summary = rollout.summary
    for name, tokens in (("trigger_tokens", summary.trigger_tokens), ("max_new_tokens", summary.max_new_tokens)):
        if summary.kind == "none" and tokens:
            yield Contradiction(f"rollout.summary.{name}", f"{name} {tokens} without summaries", "`kind: summarize`")
        if summary.kind == "summarize" and not tokens:
            yield Contradiction(f"rollout.summary.{name}", f"summaries need `{name}` above 0", "the token budget")
    if summary.kind == "summarize" and summary.trigger_tokens >= rollout.context_tokens:
        yield Contradiction(
            "rollout.summary.trigger_tokens",
            f"trigger_tokens {summary.trigger_tokens} is never reached below the wall of {rollout.context_tokens}",
            f"below {rollout.context_tokens}",
        )


def _replies(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    blocks_with_budget = (blocks.get("rollout", RolloutSpec), blocks.get("evaluation", EvaluationSpec))
    for name, block in zip(("rollout", "evaluation"), blocks_with_budget, strict=True):
        if block is not None and block.max_new_tokens_per_turn > block.context_tokens:
            yield Contradiction(
                f"{name}.max_new_tokens_per_turn",
                f"one reply of {block.max_new_tokens_per_turn} tokens exceeds the wall of {block.context_tokens}",
                f"at most {block.context_tokens}",
            )


def _trials(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    rollout = blocks.get("rollout", RolloutSpec)
    if rollout is None:
        return
    if rollout.observation_tokens >= rollout.context_tokens:
        yield Contradiction(
            "rollout.observation_tokens",
            f"one observation of {rollout.observation_tokens} tokens fills the wall of {rollout.context_tokens}",
            f"below {rollout.context_tokens}",
        )
    if rollout.command_timeout_seconds > rollout.trial_wall_seconds:
        yield Contradiction(
            "rollout.command_timeout_seconds",
            f"one command may take {rollout.command_timeout_seconds:g} s, "
            f"the whole trial only {rollout.trial_wall_seconds:g} s",
            f"at most {rollout.trial_wall_seconds:g}",
        )


def _directories(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    checkpoint = blocks.get("checkpoint", CheckpointSpec)
    if checkpoint is None or checkpoint.actor_dir is None or checkpoint.critic_dir is None:
        return
    if checkpoint.actor_dir.rstrip("/") == checkpoint.critic_dir.rstrip("/"):
        yield Contradiction(
            "checkpoint.critic_dir",
            f"actor and critic both save to {checkpoint.actor_dir}: the critic saves last and overwrites the actor",
            "another directory, or null to put it beside the actor's",
        )


def _pipeline(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    topology, model = blocks.get("topology", TopologySpec), blocks.get("model", ModelSpec)
    if topology is None:
        return
    uneven = [name for name in ("first_stage_layers", "last_stage_layers") if getattr(topology, name) is not None]
    if topology.pp == 1:
        for name in uneven:
            yield Contradiction(f"topology.{name}", f"{name} with one pipeline stage", "leave it out, or pp above 1")
        if topology.vpp > 1:
            yield Contradiction("topology.vpp", f"vpp {topology.vpp} with one pipeline stage", "1, or pp above 1")
    if model is not None and topology.pp > model.architecture.num_hidden_layers:
        layers = model.architecture.num_hidden_layers
        yield Contradiction("topology.pp", f"pp {topology.pp} for {layers} layers leaves empty stages", f"≤ {layers}")


def _cluster(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    topology, hardware = blocks.get("topology", TopologySpec), blocks.get("hardware", HardwareSpec)
    if topology is None or hardware is None:
        return
    if topology.train_nodes > hardware.num_nodes:
        yield Contradiction(
            "topology.train_nodes",
            f"{topology.train_nodes} training nodes on a cluster of {hardware.num_nodes}",
            f"at most {hardware.num_nodes}, or more `hardware.num_nodes`",
        )
    per_node = topology.train_gpus_per_node
    if per_node is not None and per_node > hardware.gpus_per_node:
        yield Contradiction(
            "topology.train_gpus_per_node",
            f"{per_node} training GPUs on nodes with {hardware.gpus_per_node}",
            f"at most {hardware.gpus_per_node}",
        )


def _colocated(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    topology, hardware = blocks.get("topology", TopologySpec), blocks.get("hardware", HardwareSpec)
    if topology is None or hardware is None:
        return
    per_node = topology.train_gpus_per_node
    training = topology.train_nodes * (hardware.gpus_per_node if per_node is None else per_node)
    if topology.colocated and topology.rollout_gpus != training:
        yield Contradiction(
            "topology.rollout_gpus",
            f"{topology.rollout_gpus} rollout GPUs colocated with {training} training GPUs",
            f"{training}, or `colocated: false`",
        )


def _architecture(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    model = blocks.get("model", ModelSpec)
    if model is None:
        return
    shape, block = model.architecture, "model.architecture"
    if shape.num_experts:
        for name in ("num_experts_per_tok", "moe_intermediate_size"):
            if not getattr(shape, name):
                yield Contradiction(f"{block}.{name}", f"{shape.num_experts} experts need `{name}`", "above 0")
        if shape.num_experts_per_tok > shape.num_experts:
            message = f"{shape.num_experts_per_tok} experts per token of {shape.num_experts}"
            yield Contradiction(f"{block}.num_experts_per_tok", message, f"at most {shape.num_experts}")
    if (not shape.num_experts or shape.first_k_dense) and not shape.intermediate_size:
        yield Contradiction(f"{block}.intermediate_size", "dense layers need `intermediate_size`", "above 0")
    if shape.num_attention_heads % shape.num_key_value_heads:
        message = f"{shape.num_attention_heads} heads over {shape.num_key_value_heads} key/value groups"
        yield Contradiction(f"{block}.num_key_value_heads", message, "a divisor of the heads")


def _critic(blocks: Blocks, tree: Node) -> Iterator[Contradiction]:
    algorithm, model = blocks.get("algorithm", PPO), blocks.get("model", ModelSpec)
    if algorithm is None or model is None:
        return
    if algorithm.critic.warm_from_reward is not None and model.checkpoints.warm_critic is None:
        yield Contradiction(
            "algorithm.critic.warm_from_reward",
            f"a critic warm from a `{algorithm.critic.warm_from_reward}` campaign, but no checkpoint to load",
            "set `model.checkpoints.warm_critic`, or leave both out for a cold critic",
        )


_GROUP_BASELINES = ("grpo", "gspo", "cispo")

RULES: tuple[Rule, ...] = (
    _surplus,
    _groups,
    _staleness,
    _loop,
    _summary,
    _replies,
    _trials,
    _directories,
    _pipeline,
    _cluster,
    _colocated,
    _architecture,
    _critic,
)
