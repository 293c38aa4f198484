"""What a campaign's trials share, made from the spec: pools, sandboxes, grader, reward, engine client."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from t1cli.embedded.template import TinyChatTemplate
from t1cli.launch.run_directory import RunDirectory
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.harness.engine_client import EngineClient
from t1cli.terminal.harness.limits import training_limits
from t1cli.terminal.rollout.budgets import budgets_of
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.world import Grader, TrialWorld, sandbox_pace, sandbox_slots
from t1cli.terminal.sandbox.sandbox import SandboxProvider
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.routing import RoutingShape


@dataclass(frozen=True)
class CampaignSite:
    """Where trials run: the sandboxes and the grader, with the owner that they are registered under."""

    provider: SandboxProvider
    grade: Grader
    owner: str

    async def sweep(self) -> tuple[str, ...]:
        """Destroy the sandboxes that dead sessions of this run left behind; returns their names."""
        return await self.provider.sweep(self.owner)

    async def close(self) -> None:
        """Destroy what is left."""
        await self.provider.close()


def open_site(spec: ExperimentSpec, run: RunDirectory) -> CampaignSite:
    """The spec's sandbox provider in the run directory, and the grader of its tasks."""
    raise NotImplementedError


def load_pools(spec: ExperimentSpec) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training tasks and evaluation tasks (empty without an evaluation block)."""
    raise NotImplementedError


def campaign_world(spec: ExperimentSpec, run: RunDirectory, site: CampaignSite, *, url: str) -> TrialWorld:
    """The world of this campaign's trials, talking to the inference server at `url`."""
    rollout, architecture = spec.rollout, spec.model.architecture
    routing = RoutingShape(
        architecture.num_hidden_layers, architecture.num_experts_per_tok, architecture.num_experts
    )
    tag = f"{run.name}-{run.attempt}"
    return TrialWorld(
        provider=site.provider,
        template=TinyChatTemplate(),
        connect=partial(EngineClient, url, routing=routing),
        grade=site.grade,
        reward=reward_rule(spec),
        limits=training_limits(rollout),
        budgets=lambda task: budgets_of(
            task, wall_seconds=rollout.trial_wall_seconds, override_seconds=spec.tasks.timeout_override_seconds
        ),
        routing="required" if rollout.routing_replay else "kept",
        owner=site.owner,
        run_tag=tag,
        trials_dir=run.trials,
        slots=sandbox_slots(spec.sandbox),
        pace=sandbox_pace(spec.sandbox),
        verifiers=Slots(_verifiers(spec)),
        seed=spec.seed + getattr(spec.engine, "seed_offset", 0),
    )


def reward_rule(spec):
    raise NotImplementedError


def _verifiers(spec: ExperimentSpec) -> int:
    named = spec.sandbox.max_verifiers if isinstance(spec.sandbox, LocalSandbox) else None
    return named or os.cpu_count() or 1
