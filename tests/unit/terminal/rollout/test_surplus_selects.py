"""What over-sampling loses of a family that takes long, by what becomes of unfinished groups."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.spec.load import load_experiment
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.series import RolloutSeries

QUICKSTART = Path(__file__).parents[4] / "experiments/quickstart/experiment.yaml"
LAUNCHED, ACCEPTED, ROLLOUTS = 28, 25, 8
EVERY = 10
"""One task of so many is hard: its replies take four times as long, in turns of the event loop."""


@dataclass
class Campaign:
    """What a campaign accepted of the hard prompts that it drew, and what its surplus cost."""

    hard_share: float
    bias: float
    over_sampled_share: float


def is_hard(number: int) -> bool:
    return number % EVERY == EVERY - 3


async def before(instruction: str, turn: int) -> None:
    number = int(instruction[1:])
    for _ in range(60 if is_hard(number) else 10 + number % 13):
        await asyncio.sleep(0)


async def campaign(doubles: SimpleNamespace, directory: Path, unfinished: str) -> Campaign:
    overrides = [
        f"rollout.batch_size={ACCEPTED}",
        f"rollout.over_sampling_batch_size={LAUNCHED}",
        f"rollout.unfinished={unfinished}",
        f"rollout.max_staleness={2 if unfinished == 'continue' else 0}",
        f"rollout.num_rollouts={ROLLOUTS}",
        "sandbox.capacity=32",
        "tasks.shuffle=false",
    ]
    spec = load_experiment(QUICKSTART, overrides).spec
    numbers = range(LAUNCHED * ROLLOUTS)
    tasks = [doubles.task_named(f"t{number}", family="hard" if is_hard(number) else "easy") for number in numbers]
    engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b", "echo c"], before=before)
    world = doubles.make_world(engine, directory, slots=Slots(32))
    series = RolloutSeries(spec, tasks, directory)
    drawn, accepted, biases, over_sampled, sampled = set(), set(), [], 0, 0
    for rollout_id in range(ROLLOUTS):
        plan = series.plan(rollout_id)
        result = await series.run(world, plan)
        drawn |= set(plan.positions)
        accepted |= {plan.positions[trial.plan.group_id - LAUNCHED * rollout_id] for trial in result.accepted}
        biases.append(result.metrics["terminal/selection_bias"])
        over_sampled += result.ledger.accounts.get("over_sampling", 0)
        sampled += result.ledger.sampled
    await series.close()
    hard = sum(map(is_hard, accepted)) / sum(map(is_hard, drawn))
    return Campaign(hard, sum(biases) / ROLLOUTS, over_sampled / sampled)


@pytest.mark.catalogue("S9")
def test_what_is_left_unfinished_is_the_hard_family_unless_it_gets_another_try(doubles: SimpleNamespace) -> None:
    found = {}
    for unfinished in ("drop", "repeat", "continue"):
        with tempfile.TemporaryDirectory() as place:
            found[unfinished] = asyncio.run(campaign(doubles, Path(place), unfinished))
    drop, repeat, goes_on = found["drop"], found["repeat"], found["continue"]
    assert drop.hard_share < 0.5 and drop.bias > 0.05
    assert repeat.hard_share > drop.hard_share + 0.3 and goes_on.hard_share > drop.hard_share + 0.3
    assert goes_on.over_sampled_share < drop.over_sampled_share / 2 < repeat.over_sampled_share
    assert goes_on.bias < drop.bias / 2
