"""A session that dies within a rollout, and the next one: the same tasks, finished trials used again, bit by bit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.embedded.campaign_work import CampaignWork, Pools, Records
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventWriter
from t1cli.run.run_files import set_aside_for_resume
from t1cli.spec.load import load_experiment
from t1cli.terminal.rollout.plan import RolloutResult

QUICKSTART = Path(__file__).parents[4] / "experiments/quickstart/experiment.yaml"
SPEC = load_experiment(
    QUICKSTART,
    ["rollout.batch_size=4", "rollout.over_sampling_batch_size=6", "rollout.unfinished=repeat", "sandbox.capacity=8"],
).spec


class Server:
    """An inference server that never ends."""

    async def server_end(self) -> None:
        await asyncio.Event().wait()


class Session:
    """One session of the run, as `CampaignWork` sees it; `hangs` never finish."""

    def __init__(self, doubles: SimpleNamespace, run: RunDirectory, hangs: frozenset[str], tag: str) -> None:
        async def before(instruction: str, turn: int) -> None:
            if instruction in hangs:
                await asyncio.Event().wait()

        self.engine = doubles.ScriptedEngine(lambda _: ["echo a"], before=before)
        world = doubles.make_world(self.engine, run.trials, run_tag=tag)
        tasks = tuple(doubles.task_named(f"t{index:02}") for index in range(30))
        metrics = SimpleNamespace(rollout=lambda *what: None)
        records = Records(run, metrics, EventWriter(run.events_jsonl), lambda message: None)
        self.work = CampaignWork(SPEC, Server(), world, Pools(tasks, ()), records)

    def drawn(self, rollout_id: int) -> list[str]:
        return [task.name for task in self.work._series.plan(rollout_id).tasks]


async def dies_in(session: Session, rollout_id: int, finished: int) -> None:
    """Cancel a rollout once so many of its trials are on disk."""
    running = asyncio.ensure_future(session.work.generate(rollout_id))
    place = session.work._records.run.carried / f"finished/rollout_{rollout_id:06d}"
    while len(list(place.glob("*.json"))) < finished:
        assert not running.done()
        await asyncio.sleep(0.005)
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.timeout(300)
def test_the_next_session_draws_the_same_and_plays_only_the_rest(doubles: SimpleNamespace, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "campaign/attempt_1")
    run.path.mkdir(parents=True)

    async def first() -> tuple[RolloutResult, list[str]]:
        probe = Session(doubles, run, frozenset(), "probe")
        slow = frozenset(probe.drawn(0)[2:4])
        await probe.work.close()
        session = Session(doubles, run, slow, "one")
        whole = await session.work.generate(0)
        drawn = session.drawn(1)
        assert set(drawn[:2]) == slow, "what was left comes first"
        await session.work.close()
        # Three of the second rollout finish, then the session dies.
        dying = Session(doubles, run, frozenset(drawn[3:]), "dying")
        await dies_in(dying, 1, finished=3)
        await dying.work.close()
        return whole, drawn

    async def second(drawn: list[str]) -> tuple[RolloutResult, Any]:
        session = Session(doubles, run, frozenset(), "two")
        assert session.drawn(1) == drawn
        session.work.resumed_version = 1
        result = await session.work.generate(1)
        await session.work.close()
        return result, session.engine

    _, drawn = asyncio.run(first())
    set_aside_for_resume(run, 1)
    result, engine = asyncio.run(second(drawn))
    again = [trial for trial in result.accepted if trial.plan.trial_id.startswith("dying-")]
    assert {trial.plan.task.name for trial in again} == set(drawn[:3]) and len(result.accepted) == 4
    assert "3 finished trials are used again" in run.events_jsonl.read_text()
    assert result.ledger.unaccounted == 0
    assert result.ledger.sampled == engine.sampled + sum(trial.sampled_tokens for trial in again)
