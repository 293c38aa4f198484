"""What all trials of a job share in one process: tasks, sandboxes, template and the world made of them."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from t1cli.errors import Refused
from t1cli.plugin.settings import Settings, parse_settings, settings_text
from t1cli.plugin.to_sample import to_samples
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.harness.chat.command_template import CommandTemplate
from t1cli.terminal.harness.chat.load import checkpoint_renderer
from t1cli.terminal.harness.chat_template import ChatTemplate
from t1cli.terminal.harness.limits import evaluation_limits
from t1cli.terminal.rollout.from_spec import RunPlace, build_world
from t1cli.terminal.rollout.group_filter import group_filter
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.from_spec import sandbox_provider
from t1cli.terminal.sandbox.leases import NODE_PREFIX
from t1cli.terminal.sandbox.sandbox import SandboxProvider
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task

T = TypeVar("T")
OWN_TEMPLATES: Final[Mapping[str, str]] = {"t1-tiny": "t1cli.embedded.template:TinyChatTemplate"}
"""model.family to `module:Class`; a name, so that this room does not import the engine."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Campaign:
    """One process's view of the campaign."""

    settings: Settings
    tasks: tuple[Task, ...]
    evaluation_tasks: tuple[Task, ...]
    world: TrialWorld

    @property
    def spec(self) -> ExperimentSpec:
        return self.settings.spec

    @property
    def evaluation_world(self) -> TrialWorld:
        """The world with the evaluation's own budgets."""
        assert self.spec.evaluation is not None
        evaluation, rollout = self.spec.evaluation, self.spec.rollout
        limits = evaluation_limits(evaluation, rollout)
        if evaluation.thinking == rollout.thinking:
            return replace(self.world, limits=limits)
        return replace(self.world, limits=limits, template=template_of(self.spec, thinking=evaluation.thinking))


def campaign_of(args: Any) -> Campaign:
    """The campaign of slime's namespace; made once per process and engine address, with slime's filter of groups."""
    campaign = open_campaign(settings_text(args), f"http://{args.sglang_router_ip}:{args.sglang_router_port}")
    path = campaign.spec.rollout.dynamic_filter
    if path is None:
        return campaign
    return replace(campaign, world=replace(campaign.world, drops=group_filter(path, args=args, samples_of=_samples)))


def _samples(trials: Sequence[TrialResult]) -> list[Any]:
    """One group as slime's filters get it: its samples side by side."""
    rows = [row for trial in trials for row in trial.rows]
    (group,) = to_samples(rows, first_index=0, with_routing=False)
    return [sample for siblings in group for sample in siblings]


def provider_of(settings: Settings) -> SandboxProvider:
    """The spec's sandboxes, as this node makes them. Raises Refused for a kind that has no provider here.

    Each node has a record of its own: seen from here, the processes that own another node's sandboxes look dead.
    """
    return sandbox_provider(settings.spec.sandbox, settings.run.sandboxes / f"{NODE_PREFIX}{platform.node()}")


def template_of(spec: ExperimentSpec, *, thinking: str) -> ChatTemplate:
    """The chat template of the model. Raises Refused when its checkpoint has no usable tokenizer or template."""
    family, checkpoint = spec.model.family, spec.model.checkpoints.hf
    if family in OWN_TEMPLATES:
        module, _, name = OWN_TEMPLATES[family].partition(":")
        return cast(ChatTemplate, getattr(import_module(module), name)())
    if checkpoint is None:
        raise Refused("no checkpoint to take tokenizer and chat template from", where="model.checkpoints.hf")
    return _checkpoint_template(Path(checkpoint), family, thinking == "on")


@lru_cache(maxsize=4)
def _checkpoint_template(checkpoint: Path, family: str, thinking: bool) -> ChatTemplate:
    renderer = checkpoint_renderer(checkpoint, family=family, thinking=thinking)
    if renderer.remark:
        logger.warning("chats are rendered as a whole before each reply, not appended to: %s", renderer.remark)
    return CommandTemplate(renderer)


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop and a thread of its own: the caller may stand inside an actor's loop."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


@lru_cache(maxsize=2)
def open_campaign(settings_json: str, engine_url: str) -> Campaign:
    """The campaign against one engine address; made once per process."""
    settings = parse_settings(settings_json)
    spec = settings.spec
    provider = provider_of(settings)
    # A session that died left its sandboxes behind under the same owner.
    run_apart(provider.sweep(settings.owner))
    evaluation = () if spec.evaluation is None else load_pool(Path(spec.evaluation.path))[: spec.evaluation.num_tasks]
    run = settings.run
    world = build_world(
        spec,
        provider=provider,
        template=template_of(spec, thinking=spec.rollout.thinking),
        engine_url=engine_url,
        place=RunPlace(settings.owner, f"{run.name}-{run.attempt}", run.trials),
    )
    return Campaign(settings, load_tasks(spec), evaluation, world)


def load_tasks(spec: ExperimentSpec) -> tuple[Task, ...]:
    """The spec's training tasks. Raises BadInput."""
    return load_pool(Path(spec.tasks.path), layout=spec.tasks.layout, families=spec.tasks.families)
