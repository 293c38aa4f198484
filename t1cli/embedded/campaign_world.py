"""What a campaign's trials share on this machine: sandboxes, pools of tasks, and the world around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from t1cli.embedded.template import TinyChatTemplate
from t1cli.run.directory import RunDirectory
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.rollout.from_spec import RunPlace, build_world
from t1cli.terminal.rollout.group_filter import group_filter, neutral_samples
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.from_spec import sandbox_provider
from t1cli.terminal.sandbox.sandbox import SandboxProvider
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task


@dataclass(frozen=True)
class CampaignSite:
    """The sandboxes of a run, and the owner that they are registered under."""

    provider: SandboxProvider
    owner: str

    async def sweep(self) -> tuple[str, ...]:
        """Destroy the sandboxes that dead sessions of this run left behind; returns their names."""
        return await self.provider.sweep(self.owner)

    async def close(self) -> None:
        """Destroy what is left."""
        await self.provider.close()


def open_site(spec: ExperimentSpec, run: RunDirectory) -> CampaignSite:
    """The spec's sandbox provider in the run directory. Raises CouldNotAsk and Refused."""
    return CampaignSite(sandbox_provider(spec.sandbox, run.sandboxes), f"{run.name}-attempt_{run.attempt}")


def load_pools(spec: ExperimentSpec) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training tasks and evaluation tasks (none without an evaluation block). Raises BadInput."""
    training = load_pool(Path(spec.tasks.path), layout=spec.tasks.layout, families=spec.tasks.families)
    if spec.evaluation is None:
        return training, ()
    return training, load_pool(Path(spec.evaluation.path))[: spec.evaluation.num_tasks]


def campaign_world(spec: ExperimentSpec, run: RunDirectory, site: CampaignSite, *, url: str) -> TrialWorld:
    """The world of this campaign's trials, talking to the inference server at `url`."""
    place = RunPlace(owner=site.owner, run_name=f"{run.name}-{run.attempt}", trials_dir=run.trials)
    world = build_world(spec, provider=site.provider, template=TinyChatTemplate(), engine_url=url, place=place)
    path = spec.rollout.dynamic_filter
    return world if path is None else replace(world, drops=group_filter(path, samples_of=neutral_samples))
