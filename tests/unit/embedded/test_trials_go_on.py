"""Trials that go on under new weights, on the embedded engine's own server and trainer."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.embedded.campaign_work import CampaignWork, Pools, Records
from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.pipeline import Schedule, run_pipeline
from t1cli.embedded.server_process import RunningServer, inference_server
from t1cli.embedded.template import TinyChatTemplate
from t1cli.embedded.trainer import Trainer
from t1cli.embedded.weights import save_weights
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventWriter
from t1cli.run.save_directories import save_directories
from t1cli.spec.embedded_engine import refuse_unsupported
from t1cli.spec.load import load_experiment
from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.rollout.from_spec import RunPlace, build_world
from t1cli.terminal.rollout.plan import RolloutResult
from t1cli.terminal.rollout.series import RolloutSeries
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.sandbox import ExecResult
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.versions import lag_rule

QUICKSTART = Path(__file__).parents[3] / "experiments/quickstart"
SPEC = load_experiment(
    QUICKSTART / "experiment.yaml",
    [
        "rollout.batch_size=4",
        "rollout.over_sampling_batch_size=8",
        "rollout.unfinished=continue",
        "rollout.max_staleness=1",
        "rollout.trial_wall_seconds=600",
        "rollout.num_rollouts=2",
        "engine.max_batch=8",
        "sandbox.capacity=16",
        "tasks.shuffle=false",
        "algorithm.critic.critic_only_steps=0",
        "algorithm.actor_learning_rate=0.003",
    ],
).spec
SLOW = range(4, 8)
"""Groups of the first rollout whose commands wait until it is over; the others' wait until these have begun."""


class Site:
    """Sandboxes in memory, and who waits for whom."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.all_slow, self.first_is_over = asyncio.Event(), asyncio.Event()
        self.live: set[str] = set()

    async def create(self, name: str, *, owner: str) -> Box:
        self.live.add(name)
        return Box(name, self)

    def begins(self, name: str) -> None:
        self.begun.add(name)
        if len(self.begun) == len(SLOW):
            self.all_slow.set()


class Box:
    """One of them."""

    def __init__(self, name: str, site: Site) -> None:
        self.name, self.site = name, site
        self.is_slow = any(f"-r0-g{group}-" in name for group in SLOW)

    async def exec(self, command: str, **more: Any) -> ExecResult:
        if self.is_slow:
            self.site.begins(self.name)
        await (self.site.first_is_over if self.is_slow else self.site.all_slow).wait()
        return ExecResult("a.txt b.txt", 0, False, 0.01)

    async def put_directory(self, *where: Any, **more: Any) -> None:
        return None

    async def close(self) -> None:
        if self.is_slow:
            self.site.begins(self.name)
        self.site.live.discard(self.name)


async def grade(*what: Any, **more: Any) -> Verdict:
    return Verdict(solved=False, ctrf="ok", passed=1, total=3, expected=3, seconds=0.0)


def world_of(site: Site, url: str, directory: Path) -> TrialWorld:
    place = RunPlace("owner", "run", directory)
    world = build_world(SPEC, provider=site, template=TinyChatTemplate(), engine_url=url, place=place)
    return replace(world, grade=grade)


async def two_steps(server: RunningServer, trainer: Trainer, tasks: tuple[Task, ...], directory: Path) -> Any:
    """Two rollouts with a step and new weights in between."""
    site = Site()
    world, series = world_of(site, server.url, directory), RolloutSeries(SPEC, tasks, directory)
    first = await series.run(world, series.plan(0))
    held = set(site.live)
    trainer.train(0, first.rows)
    path = directory / "weights.safetensors"
    save_weights(path, trainer.publish(), trainer._actor.model.config)
    await asyncio.to_thread(server.update_weights, path, 1)
    site.first_is_over.set()
    second = await series.run(world, series.plan(1))
    await series.close()
    assert not site.live and world.slots.in_use == 0
    return first, second, held


@pytest.mark.catalogue("S9")
@pytest.mark.timeout(600)
def test_new_weights_go_on_with_a_trial_and_the_trainer_agrees_with_every_token(tmp_path: Path) -> None:
    refuse_unsupported(SPEC)
    weights = first_weights(SPEC)
    assert weights is not None
    places = save_directories(SPEC, RunDirectory(tmp_path / "attempt_1"))
    trainer = Trainer(SPEC, places, actor_weights=weights)
    trainer.publish()
    tasks = load_pool(QUICKSTART / "tasks")[:16]
    with inference_server(weights, "--max-batch", "8") as server:
        first, second, held = asyncio.run(two_steps(server, trainer, tasks, tmp_path / "trials"))
    check_rollouts(first, second, held)
    trained = trainer.train(1, second.rows)
    assert trained["train/staleness"] == 1
    # Server and trainer round differently, by about 0.005; under the other version's weights it would be far more.
    assert trained["train/train_rollout_logprob_abs_diff"] < 0.02


def check_rollouts(first: RolloutResult, second: RolloutResult, held: set[str]) -> None:
    assert first.metrics["terminal/held_trials"] == len(held) >= 1
    assert first.ledger.unaccounted == second.ledger.unaccounted == 0
    mixed = [row for row in second.rows if len(set(row.weight_versions)) > 1]
    assert mixed and {row.trial_id for row in mixed} <= held
    for row in mixed:
        assert row.weight_versions == tuple(sorted(row.weight_versions)) and set(row.weight_versions) == {0, 1}
        assert row.audit.drifted_in_loss == 0 and row.audit.strict == row.audit.turns
        assert row.routed_experts is not None and len(row.routed_experts) == len(row.tokens) - 1
    assert second.metrics["terminal/rows_of_several_versions"] == len(mixed)


class SteppedBox(Box):
    """A sandbox whose commands wait until the rollout after its own begins, unless its group is among the first."""

    async def exec(self, command: str, **more: Any) -> ExecResult:
        rollout, group = (int(part) for part in re.findall(r"-r(\d+)-g(\d+)-", self.name)[0])
        site = self.site
        assert isinstance(site, SteppedSite)
        if group - 8 * rollout >= 4:
            await site.begun_rollout(rollout + 1)
        return ExecResult("a.txt b.txt", 0, False, 0.01)


class SteppedSite(Site):
    """Sandboxes that know which rollout is played."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[int, asyncio.Event] = {}

    async def create(self, name: str, *, owner: str) -> Box:
        self.live.add(name)
        return SteppedBox(name, self)

    async def begun_rollout(self, rollout_id: int) -> None:
        await self.events.setdefault(rollout_id, asyncio.Event()).wait()


class InThisProcess:
    """The trainer and the server of a campaign, without Ray."""

    def __init__(self, server: RunningServer, trainer: Trainer, directory: Path) -> None:
        self.server, self.trainer, self.directory = server, trainer, directory

    async def server_end(self) -> None:
        await asyncio.Event().wait()

    async def train(self, rollout_id: int, rows: Any) -> Any:
        return await asyncio.to_thread(self.trainer.train, rollout_id, rows)

    async def publish(self) -> int:
        path = self.directory / "published.safetensors"
        save_weights(path, self.trainer.publish(), self.trainer._actor.model.config)
        await asyncio.to_thread(self.server.update_weights, path, self.trainer.version())
        return self.trainer.version()

    async def save(self, score: float | None) -> tuple[()]:
        return ()


@pytest.mark.catalogue("S9", "C9")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("pipeline", "staleness"), [("sync", 1), ("one_step", 2)])
def test_a_whole_campaign_stays_within_its_lag(tmp_path: Path, pipeline: str, staleness: int) -> None:
    rollout = SPEC.rollout.model_copy(
        update={"pipeline": pipeline, "max_staleness": staleness, "num_rollouts": 4, "unfinished": "continue"}
    )
    spec = SPEC.model_copy(update={"rollout": rollout})
    run = RunDirectory(tmp_path / "attempt_1")
    run.path.mkdir()
    weights = first_weights(spec)
    assert weights is not None
    trainer, site = Trainer(spec, save_directories(spec, run), actor_weights=weights), SteppedSite()
    trainer.publish()
    seen: list[dict[str, float]] = []

    async def whole(server: RunningServer) -> int:
        place = RunPlace("owner", "run", run.trials)
        world = build_world(spec, provider=site, template=TinyChatTemplate(), engine_url=server.url, place=place)
        metrics = SimpleNamespace(
            rollout=lambda _, found: seen.append(found), train=lambda _, found: seen[-1].update(found)
        )
        records = Records(run, metrics, EventWriter(run.events_jsonl), lambda message: None)
        processes: Any = InThisProcess(server, trainer, tmp_path)
        pools = Pools(load_pool(QUICKSTART / "tasks"), ())
        work = CampaignWork(spec, processes, replace(world, grade=grade), pools, records)
        generate = work.generate

        async def announced(rollout_id: int) -> RolloutResult:
            site.events.setdefault(rollout_id, asyncio.Event()).set()
            return await generate(rollout_id)

        work.generate = announced  # type: ignore[method-assign]
        schedule = Schedule(0, 4, 9, pipeline == "one_step", carried_span=lag_rule(spec.rollout).allowed_span)
        try:
            return await run_pipeline(work, schedule)
        finally:
            await work.close()

    with inference_server(weights, "--max-batch", "8") as server:
        assert asyncio.run(whole(server)) == 4
    assert len(seen) == 4 and not site.live
    assert all(found["terminal/unaccounted_tokens"] == found["terminal/drifted_in_loss"] == 0 for found in seen)
    assert all(found["train/train_rollout_logprob_abs_diff"] < 0.02 for found in seen)
    assert max(found["train/staleness"] for found in seen) <= staleness
    # Under one_step the first two rollouts are sampled by the same weights.
    assert sum(found.get("terminal/rows_of_several_versions", 0) for found in seen) >= 1
    assert "terminal/held_trials" not in seen[-1], "the last rollout leaves nothing"
