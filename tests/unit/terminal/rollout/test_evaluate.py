"""Evaluation: scored beside scheduled, retries of lost trials, and its own event loop beside a training rollout."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.evaluate import EvaluationPlan, evaluate
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.plan import RolloutPlan


def test_lost_trials_are_retried_and_what_stays_lost_is_missing_not_zero(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    failures = {"t0": 1, "t1": 99}

    async def fail(instruction: str, turn: int) -> None:
        if failures.get(instruction, 0):
            failures[instruction] -= 1
            raise EngineError("engine_timeout")

    engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b", "echo c"], before=fail)
    world = doubles.make_world(engine, tmp_path)
    tasks = tuple(doubles.task_named(f"t{index}") for index in range(4))
    result = evaluate(world, EvaluationPlan("before", tasks, repeats=2, infrastructure_retries=2))
    assert result.scheduled == 8 and len(result.scored) == 6 and not result.complete
    assert result.check_rates() == {"t0": [1.0, 1.0], "t2": [1.0, 1.0], "t3": [1.0, 1.0]}
    metrics = result.metrics("tb")
    assert metrics["eval/tb/scheduled"] == 8 and metrics["eval/tb/scored"] == 6
    assert metrics["eval/tb"] == pytest.approx(3 / 20) and metrics["eval/tb/solved_rate"] == 1
    assert (tmp_path / "evaluation_before.jsonl").read_text().count("\n") == 1 + 6 + 6


@pytest.mark.catalogue("S7")
def test_89_tasks_are_all_scored_in_their_own_loop_while_training_rolls_out(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    engine = doubles.ScriptedEngine(lambda _: ["echo a"])
    world = doubles.make_world(engine, tmp_path, slots=Slots(8))
    tasks = tuple(doubles.task_named(f"t{index}") for index in range(89))
    rollouts = []

    def train() -> None:
        plan = RolloutPlan(rollout_id=0, tasks=tasks, accept=80)
        rollouts.append(asyncio.run(run_rollout(world, plan)))

    training = threading.Thread(target=train)
    training.start()
    result = evaluate(world, EvaluationPlan("mid", tasks))
    training.join(120)
    assert result.complete and result.scheduled == 89
    assert len(rollouts[0].accepted) == 80 and world.slots.in_use == 0
