"""An experiment's blocks as a TrialWorld, and one rollout of it as a RolloutPlan."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from t1cli.errors import Refused
from t1cli.spec.engine import EmbeddedEngine
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.harnesses import lacks_harbor
from t1cli.spec.sandbox import HarborSandbox, LocalSandbox, PoolSandbox
from t1cli.spec.sandbox import Sandbox as SandboxSpec
from t1cli.terminal.harness.chat_template import ChatTemplate
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.harness.engine_client import ClientTimes, EngineClient
from t1cli.terminal.harness.limits import training_limits
from t1cli.terminal.harness.load_harness import agent_maker
from t1cli.terminal.rewards.reward import RewardRule
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.rollout.budgets import Budgets, budgets_of
from t1cli.terminal.rollout.draw import tasks_at
from t1cli.terminal.rollout.kept import KeepRule
from t1cli.terminal.rollout.pacing import Pace, Slots
from t1cli.terminal.rollout.plan import RolloutPlan
from t1cli.terminal.rollout.world import CREATE_SECONDS, TrialWorld
from t1cli.terminal.sandbox.sandbox import SandboxProvider
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.routing import RoutingShape
from t1cli.terminal.trajectory.versions import lag_rule


@dataclass(frozen=True)
class RunPlace:
    """Whose trials these are and where they leave their files."""

    owner: str
    """Owner of every sandbox, for the reaper."""
    run_name: str
    """First part of every trial id; a random part follows, so that a resumed run never uses an id twice."""
    trials_dir: Path


def build_world(
    spec: ExperimentSpec, *, provider: SandboxProvider, template: ChatTemplate, engine_url: str, place: RunPlace
) -> TrialWorld:
    """The world of a campaign's training trials; replace its `limits` for evaluation trials.

    Raises Refused for a `rollout.harness` that cannot be imported or called, or cannot play in these sandboxes.
    """
    if lacking := lacks_harbor(spec.rollout.harness, spec.sandbox.kind):
        raise Refused(
            lacking, where="rollout.harness", hint="rollout.harness=builtin, or a `sandbox.kind: harbor` block"
        )
    shape, times = routing_shape(spec), ClientTimes(generate_seconds=spec.rollout.trial_wall_seconds)

    def connect() -> AbstractAsyncContextManager[Engine]:
        return EngineClient(engine_url, routing=shape, times=times)

    def budgets(task: Task) -> Budgets:
        return budgets_of(
            task,
            wall_seconds=spec.rollout.trial_wall_seconds,
            override_seconds=spec.tasks.timeout_override_seconds,
        )

    return TrialWorld(
        provider=provider,
        template=template,
        connect=connect,
        grade=grade,
        reward=RewardRule(spec.reward),
        limits=training_limits(spec.rollout),
        budgets=budgets,
        routing="required" if spec.rollout.routing_replay and shape else "kept",
        owner=place.owner,
        run_tag=f"{place.run_name}-{secrets.token_hex(4)}",
        trials_dir=place.trials_dir,
        slots=Slots(sandbox_capacity(spec.sandbox)),
        pace=Pace(spec.sandbox.creation_per_second),
        verifiers=Slots(_max_verifiers(spec.sandbox)),
        create_seconds=_create_seconds(spec.sandbox),
        make_agent=agent_maker(spec.rollout.harness),
        seed=spec.seed + (spec.engine.seed_offset if isinstance(spec.engine, EmbeddedEngine) else 0),
    )


def rollout_plan(
    spec: ExperimentSpec, rollout_id: int, tasks: Sequence[Task], positions: Sequence[int] | None = None
) -> RolloutPlan:
    """What one rollout launches; the same for the same spec, rollout id and pool, so a resume draws the same tasks.

    `positions`: where in the stream of tasks the draw stands, when the rollout id does not say it.
    """
    launched = groups_launched(spec)
    positions = range(rollout_id * launched, (rollout_id + 1) * launched) if positions is None else positions
    return RolloutPlan(
        rollout_id=rollout_id,
        tasks=tasks_at(tasks, positions, seed=spec.seed, shuffle=spec.tasks.shuffle),
        accept=spec.rollout.batch_size,
        samples_per_prompt=spec.rollout.samples_per_prompt,
        refill_seconds=refill_seconds(spec),
        # slime needs the full batch.
        allow_short=isinstance(spec.engine, EmbeddedEngine),
        positions=tuple(positions),
        keep=_keep_rule(spec, rollout_id),
    )


def refill_seconds(spec: ExperimentSpec) -> float:
    """How long one rollout repeats what the infrastructure lost."""
    waves = math.ceil(groups_launched(spec) * spec.rollout.samples_per_prompt / sandbox_capacity(spec.sandbox))
    # Every wave may use its whole wall, and what the last one lost gets one more.
    return (waves + 1) * spec.rollout.trial_wall_seconds


def groups_launched(spec: ExperimentSpec) -> int:
    """Groups that one rollout launches, the surplus included."""
    return spec.rollout.groups_launched


def _keep_rule(spec: ExperimentSpec, rollout_id: int) -> KeepRule | None:
    if spec.rollout.unfinished != "continue" or rollout_id + 1 >= spec.rollout.num_rollouts:
        return None
    # An evaluation between two rollouts needs sandboxes too, and so does the next rollout's own start.
    return KeepRule(lag_rule(spec.rollout).allowed_span, sandbox_capacity(spec.sandbox) // 2)


def routing_shape(spec: ExperimentSpec) -> RoutingShape | None:
    """One token's routing as the engine sends it; None when it is not asked for.

    The embedded engine always sends it, so that flips can be measured without replay.
    """
    architecture = spec.model.architecture
    if not architecture.num_experts or not (spec.rollout.routing_replay or isinstance(spec.engine, EmbeddedEngine)):
        return None
    # SGLang and slime count every layer, dense leading ones included.
    return RoutingShape(architecture.num_hidden_layers, architecture.num_experts_per_tok, architecture.num_experts)


def sandbox_capacity(sandbox: SandboxSpec) -> int:
    """Live sandboxes that the spec's sandbox block offers at once."""
    match sandbox:
        case LocalSandbox() | HarborSandbox():
            return sandbox.capacity
        case PoolSandbox():
            return len(sandbox.urls) * sandbox.max_tasks * sandbox.max_runs_per_task


def _create_seconds(sandbox: SandboxSpec) -> float:
    # Where an image may have to be built first, the provider's own limit comes before ours.
    return sandbox.create_seconds + CREATE_SECONDS if isinstance(sandbox, HarborSandbox) else CREATE_SECONDS


def _max_verifiers(sandbox: SandboxSpec) -> int:
    # Verifiers of remote sandboxes do not run on this machine's cores.
    if not isinstance(sandbox, LocalSandbox):
        return sandbox_capacity(sandbox)
    return sandbox.max_verifiers or os.cpu_count() or 1
