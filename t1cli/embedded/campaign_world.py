"""What a campaign's trials share, made from the spec: pools, sandboxes, grader, reward, engine client."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from t1cli.embedded.template import TinyChatTemplate
from t1cli.launch.run_directory import RunDirectory
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.harness.engine_client import EngineClient
from t1cli.terminal.harness.limits import training_limits
from t1cli.terminal.rewards.reward import RewardRule
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.rollout.budgets import budgets_of
from t1cli.terminal.rollout.pacing import Pace, Slots
from t1cli.terminal.rollout.world import Grader, TrialWorld
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.sandbox.sandbox import SandboxProvider
from t1cli.terminal.tasks.load import load_pool
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
    """The spec's sandbox provider in the run directory, and the grader of its tasks. Raises CouldNotAsk."""
    assert isinstance(spec.sandbox, LocalSandbox), "the embedded engine runs trials on this machine"
    return CampaignSite(LocalProvider(spec.sandbox, run.sandboxes), grade, f"{run.name}-attempt_{run.attempt}")


def load_pools(spec: ExperimentSpec) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training tasks and evaluation tasks (none without an evaluation block). Raises BadInput."""
    training = load_pool(Path(spec.tasks.path), layout=spec.tasks.layout, families=spec.tasks.families)
    if spec.evaluation is None:
        return training, ()
    return training, load_pool(Path(spec.evaluation.path))[: spec.evaluation.num_tasks]


def campaign_world(spec: ExperimentSpec, run: RunDirectory, site: CampaignSite, *, url: str) -> TrialWorld:
    """The world of this campaign's trials, talking to the inference server at `url`."""
    assert isinstance(spec.sandbox, LocalSandbox)
    rollout, architecture = spec.rollout, spec.model.architecture
    routing = RoutingShape(architecture.num_hidden_layers, architecture.num_experts_per_tok, architecture.num_experts)
    # Trial ids carry the session, so that a resumed rollout never meets a directory or lease of the one it repeats.
    tag = f"{run.name}-{run.attempt}-{secrets.token_hex(3)}"
    return TrialWorld(
        provider=site.provider,
        template=TinyChatTemplate(),
        connect=partial(EngineClient, url, routing=routing),
        grade=site.grade,
        reward=RewardRule(spec.reward),
        limits=training_limits(rollout),
        budgets=lambda task: budgets_of(
            task, wall_seconds=rollout.trial_wall_seconds, override_seconds=spec.tasks.timeout_override_seconds
        ),
        routing="required" if rollout.routing_replay else "kept",
        owner=site.owner,
        run_tag=tag,
        trials_dir=run.trials,
        slots=Slots(spec.sandbox.capacity),
        pace=Pace(spec.sandbox.creation_per_second),
        verifiers=Slots(spec.sandbox.max_verifiers or os.cpu_count() or 1),
        seed=spec.seed + getattr(spec.engine, "seed_offset", 0),
    )
