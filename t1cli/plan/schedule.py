"""Steps, epochs, ramp, routing bytes, step time and cost, counted as slime counts them."""

from __future__ import annotations

from typing import Literal

from t1cli.plan.plan import PoolPlan, Schedule
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.model import Architecture

# slime asks SGLang for routed experts as int32 and checks rows of (tokens - 1, layers, top-k) of them
# (slime 0.3.0, backends/megatron_utils/actor.py: fill_routing_replay).
ROUTING_BYTES_PER_INDEX = 4

Side = Literal["rollout", "training", "unknown"]


def plan_schedule(spec: ExperimentSpec, *, topology: Topology, pool: PoolPlan) -> Schedule:
    """The campaign's schedule. Step time and cost are None unless the spec gives expected seconds."""
    rollout = spec.rollout
    step_seconds, side = step_time(spec)
    gpu_hours = None
    if step_seconds is not None and topology.total_gpus:
        gpu_hours = topology.total_gpus * step_seconds * rollout.num_rollouts / 3600
    price = spec.hardware.price_per_gpu_hour
    per_token = routing_bytes_per_token(spec)
    return Schedule(
        optimizer_steps=optimizer_steps(spec),
        rollouts=rollout.num_rollouts,
        epochs_seen=rollout.num_rollouts * rollout.batch_size / spec.tasks.card.num_tasks,
        tasks_skipped_per_epoch=spec.tasks.card.num_tasks % rollout.batch_size,
        sandbox_ramp_seconds=sandbox_ramp_seconds(spec, pool.demand),
        routing_bytes_per_token=per_token,
        routing_bytes_per_step=per_token * samples_per_rollout(spec) * rollout.context_tokens,
        step_seconds=step_seconds,
        binding_side=side,
        gpu_hours=gpu_hours,
        gpu_hours_per_step=None if gpu_hours is None else gpu_hours / rollout.num_rollouts,
        gpu_hours_per_day=topology.total_gpus * 24.0,
        cost=None if gpu_hours is None or price is None else gpu_hours * price,
        epochs_drawn=rollout.num_rollouts * rollout.groups_launched / spec.tasks.card.num_tasks,
        samples_per_step=global_batch_size(spec),
    )


def samples_per_rollout(spec: ExperimentSpec) -> int:
    """Samples that one rollout hands to the trainer."""
    return spec.rollout.batch_size * spec.rollout.samples_per_prompt


def steps_per_rollout(spec: ExperimentSpec) -> int:
    """Optimizer steps that one rollout's batch is cut into; always 1 for PPO."""
    return spec.algorithm.steps_per_rollout if spec.algorithm.kind == "grpo" else 1


def global_batch_size(spec: ExperimentSpec) -> int:
    """slime's `global_batch_size`: samples of one optimizer step (utils/arguments.py: slime_validate_args)."""
    return max(1, samples_per_rollout(spec) // steps_per_rollout(spec))


def optimizer_steps(spec: ExperimentSpec) -> int:
    """slime's `train_iters` = rollouts · batch · samples // global batch, floored (megatron_utils/arguments.py)."""
    return spec.rollout.num_rollouts * samples_per_rollout(spec) // global_batch_size(spec)


def moe_layers(architecture: Architecture) -> int:
    """Layers with a router; 0 for a dense model."""
    if not architecture.num_experts:
        return 0
    return architecture.num_hidden_layers - architecture.first_k_dense


def routing_bytes_per_token(spec: ExperimentSpec) -> int:
    """Bytes of one routing row: MoE layers · top-k · 4; 0 without routing replay or for a dense model."""
    if not spec.rollout.routing_replay:
        return 0
    shape = spec.model.architecture
    return moe_layers(shape) * shape.num_experts_per_tok * ROUTING_BYTES_PER_INDEX


def sandbox_ramp_seconds(spec: ExperimentSpec, demand: int) -> float:
    """Least time until every trial of a rollout has a sandbox: demand over the paced creation rate."""
    rate = spec.sandbox.creation_per_second
    return demand / rate if rate else 0.0


def step_time(spec: ExperimentSpec) -> tuple[float | None, Side]:
    """Seconds of one step and the side that binds: the sum under `sync`, the larger one in a pipeline.

    With only one of the two figures given, it is a lower bound and the side is unknown.
    """
    generate, train = spec.rollout.expected_seconds, spec.rollout.expected_train_seconds
    if generate is None or train is None:
        return (generate if train is None else train), "unknown"
    side: Side = "rollout" if generate >= train else "training"
    return (generate + train if spec.rollout.pipeline == "sync" else max(generate, train)), side
