"""Summaries of histories by the embedded engine's own model: exact to the token, and fit to train on."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.server_process import inference_server
from t1cli.embedded.template import TinyChatTemplate
from t1cli.embedded.trainer import Trainer
from t1cli.run.directory import RunDirectory
from t1cli.run.save_directories import save_directories
from t1cli.spec.embedded_engine import refuse_unsupported
from t1cli.spec.load import load_experiment
from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan
from t1cli.terminal.rollout.plan import RolloutResult
from t1cli.terminal.sandbox.sandbox import ExecResult
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task

QUICKSTART = Path(__file__).parents[3] / "experiments/quickstart"
SPEC = load_experiment(
    QUICKSTART / "experiment.yaml",
    [
        "rollout.summary={kind: summarize, trigger_tokens: 200, max_new_tokens: 24}",
        "rollout.batch_size=6",
        "rollout.trial_wall_seconds=600",
        "engine.max_batch=6",
        "algorithm.critic.critic_only_steps=0",
    ],
).spec


class Talkative:
    """A sandbox whose every command says a lot, so that histories grow."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def exec(self, command: str, **more: Any) -> ExecResult:
        return ExecResult("\n".join(f"line {number}" for number in range(12)), 0, False, 0.01)

    async def put_directory(self, *where: Any, **more: Any) -> None:
        return None

    async def close(self) -> None:
        return None


class Provider:
    """Makes them."""

    async def create(self, name: str, *, owner: str) -> Talkative:
        return Talkative(name)


def rollout(directory: Path, tasks: tuple[Task, ...]) -> RolloutResult:
    async def grade(*what: Any, **more: Any) -> Any:
        return Verdict(solved=False, ctrf="ok", passed=1, total=3, expected=3, seconds=0.0)

    weights = first_weights(SPEC)
    assert weights is not None
    with inference_server(weights, "--max-batch", "6") as server:
        world = build_world(
            SPEC,
            provider=Provider(),
            template=TinyChatTemplate(),
            engine_url=server.url,
            place=RunPlace("owner", "run", directory),
        )
        return asyncio.run(run_rollout(replace(world, grade=grade), rollout_plan(SPEC, 0, tasks)))


@pytest.mark.catalogue("R9")
@pytest.mark.timeout(600)
def test_the_engines_own_model_summarises_and_the_trainer_agrees_with_every_token(tmp_path: Path) -> None:
    refuse_unsupported(SPEC)
    result = rollout(tmp_path, load_pool(QUICKSTART / "tasks")[:6])
    found = result.metrics
    tried = found["terminal/summary_tried"]
    assert tried >= 1
    kinds = ("full", "short", "fallback")
    assert sum(found[f"terminal/summary_{kind}"] for kind in kinds) == tried
    # What a trial's end cut off after a summary began no row.
    assert 1 <= found["terminal/relation/split"] == len(result.rows) - len(result.accepted) <= tried
    assert found["terminal/unaccounted_tokens"] == found["terminal/drifted_in_loss"] == 0
    assert max(len(row.tokens) for row in result.rows) <= SPEC.rollout.context_tokens
    trainer = Trainer(
        SPEC, save_directories(SPEC, RunDirectory(tmp_path / "attempt_1")), actor_weights=first_weights(SPEC)
    )
    trained = trainer.train(0, result.rows)
    assert trained["train/global_batch_size"] == 6, "a trial of several rows counts once"
    # Server and trainer round differently, by about 0.005 here with summaries and without; other ids would be far off.
    assert trained["train/train_rollout_logprob_abs_diff"] < 0.02 and math.isfinite(trained["train/grad_norm"])
