"""Trials of another node that go on there."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.plugin.trial_worker import RemoteTrial, TrialWorker
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.kept import KeepRule, Kept
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.plan import RolloutPlan


class OneNode:
    """A worker in this process, called as Ray calls it."""

    addresses = ("10.0.0.1",)

    def __init__(self, worker: TrialWorker) -> None:
        self.worker = worker

    async def call(self, address: str, method: str, *arguments: object) -> object:
        return await getattr(self.worker, method)(*arguments)


@pytest.mark.catalogue("S9")
def test_a_trial_goes_on_on_its_own_node(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        opened = asyncio.Event()

        async def before(instruction: str, turn: int) -> None:
            if instruction == "t2" and turn:
                await opened.wait()

        engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"], before=before)
        world = doubles.make_world(engine, tmp_path)
        worker = TrialWorker.__new__(TrialWorker)
        worker._campaign, worker._slots, worker._running = SimpleNamespace(world=world), Slots(8), {}
        maker, kept, rule = partial(RemoteTrial, OneNode(worker)), Kept(), KeepRule(1, 4)
        tasks = tuple(doubles.task_named(f"t{index}") for index in range(4))
        first_plan = RolloutPlan(0, tasks[:3], 2, positions=(0, 1, 2), keep=rule)
        first = await run_rollout(world, first_plan, kept=kept, make_trial=maker)
        assert first.metrics["terminal/held_trials"] == 1 and first.metrics["terminal/held_tokens"] == 7 + 3
        assert len(world.provider.alive) == worker._slots.in_use == len(worker._running) == 1
        opened.set()
        second_plan = RolloutPlan(1, tasks[2:], 2, positions=(2, 3))
        second = await run_rollout(world, second_plan, kept=kept, make_trial=maker)
        (row,) = (row for row in second.rows if row.task == "t2")
        assert row.trial_id == "run1-r0-g2-s0-a0" and row.group_id == 2 and row.audit.strict == 3
        (box,) = (box for name, box in world.provider.made.items() if name == row.trial_id)
        assert box.commands == ["echo a", "echo b"]
        assert first.ledger.unaccounted == second.ledger.unaccounted == 0
        assert first.ledger.sampled + second.ledger.sampled == engine.sampled
        assert second.ledger.accounts["over_sampling"] == engine.lost_when_cancelled
        assert not world.provider.alive and not worker._running

    asyncio.run(whole())
