"""A rollout of a campaign whose trials run a text harness: real sandboxes and verifiers, the embedded engine over HTTP.

What is on disk afterwards is what `t1 audit RUN --engine URL` reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from t1cli.cli.audit import command
from t1cli.cli.boundary import guarded
from t1cli.embedded.decoder import DecoderSettings
from t1cli.embedded.first_weights import SHIPPED
from t1cli.embedded.inference import InferenceEngine
from t1cli.embedded.model import TinyMoE
from t1cli.embedded.template import TinyChatTemplate
from t1cli.embedded.weights import read_config
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.terminal.harness.engine import Engine, Generation, Sampling
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan
from t1cli.terminal.rollout.plan import RolloutResult
from t1cli.terminal.sandbox.from_spec import sandbox_provider
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.trajectory.store import save_rows
from tests.contract.served_engine import served_engine

QUICKSTART = Path(__file__).parents[2] / "experiments/quickstart"
HARNESS = "t1cli.terminal.harness.chat_shell:line"
TRIALS = 8

pytestmark = pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap: {bubblewrap_problem()}")


def spec_of(*overrides: str) -> ExperimentSpec:
    # Walls that a machine many times slower keeps.
    slow = ("rollout.trial_wall_seconds=600", "rollout.command_timeout_seconds=120")
    sizes = (f"rollout.batch_size={TRIALS}", f"sandbox.capacity={TRIALS}", "rollout.max_turns=6")
    return load_experiment(QUICKSTART / "experiment.yaml", [*slow, *sizes, *overrides]).spec


@contextmanager
def serving(weights: dict[str, torch.Tensor] | None, dtype: torch.dtype) -> Iterator[str]:
    """The embedded engine's server on the quickstart's first weights, or on others, in a thread."""
    settings = DecoderSettings(slots=TRIALS, max_context=512, dtype=dtype)
    engine = (
        InferenceEngine.from_file(SHIPPED, settings)
        if weights is None
        else InferenceEngine(read_config(SHIPPED), weights, settings, weight_version="9")
    )
    with served_engine(engine) as url:
        yield url


@dataclass
class Recorder:
    """Passes on what an engine samples, and keeps it by request."""

    engine: Engine
    sampled: dict[str, tuple[int, ...]] = field(default_factory=dict)

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        generation = await self.engine.generate(prompt_ids, rid=rid, sampling=sampling)
        self.sampled[rid] = generation.sampled_ids
        return generation

    def take_lost(self, rid: str) -> int:
        return self.engine.take_lost(rid)


def rollout_of(spec: ExperimentSpec, url: str, place: Path) -> tuple[RolloutResult, dict[str, tuple[int, ...]]]:
    """One rollout as a campaign runs it, and everything that the engine sampled for it."""
    world = build_world(
        spec,
        provider=sandbox_provider(spec.sandbox, place / "sandboxes"),
        template=TinyChatTemplate(),
        engine_url=url,
        place=RunPlace(owner="text-campaign", run_name="run", trials_dir=place / "trials"),
    )
    connect, sampled = world.connect, dict[str, tuple[int, ...]]()

    @asynccontextmanager
    async def recorded() -> AsyncIterator[Engine]:
        async with connect() as engine:
            yield Recorder(engine, sampled)

    plan = rollout_plan(spec, 0, load_pool(QUICKSTART / "tasks"))
    return asyncio.run(run_rollout(replace(world, connect=recorded), plan)), sampled


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    # In fp32, so that what else is in a batch moves no sampled token.
    with serving(None, torch.float32) as url:
        yield url


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A short directory, since pytest's own are long enough to break Unix sockets."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="t1text-") as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def text(served: str, place: Path) -> tuple[RolloutResult, dict[str, tuple[int, ...]]]:
    """The rollout that this module is about."""
    return rollout_of(spec_of(f"rollout.harness={HARNESS}"), served, place / "text")


def test_what_was_sampled_is_what_is_trained_and_a_trial_is_one_row(
    text: tuple[RolloutResult, dict[str, tuple[int, ...]]],
) -> None:
    result, sampled = text
    assert len(result.accepted) == TRIALS and len(result.rows) == TRIALS
    metrics = result.metrics
    assert metrics["terminal/strict_share"] == 1.0 and metrics["terminal/drifted_in_loss"] == 0
    assert metrics["terminal/unaccounted_tokens"] == 0 and result.ledger.accounts == {"trained": result.ledger.sampled}
    assert result.ledger.sampled == sum(map(len, sampled.values()))
    for trial, row in zip(result.accepted, result.rows, strict=True):
        replies = [sampled[f"{trial.plan.trial_id}-r{turn}"] for turn in range(row.audit.turns)]
        assert row.tokens[row.loss_mask == 1].tolist() == [token for reply in replies for token in reply]
        assert row.routed_experts is not None and len(row.routed_experts) == len(row.tokens) - 1
    assert sum(row.audit.turns for row in result.rows) > TRIALS, "trials of several turns are among them"
    assert {trial.outcome.scored for trial in result.accepted} == {True}


def test_the_rows_are_those_of_the_built_in_loop_token_by_token(
    text: tuple[RolloutResult, dict[str, tuple[int, ...]]], served: str, place: Path
) -> None:
    """Same seeds, same model, same tasks: the wire between harness and policy leaves no trace in a row."""
    built_in, _ = rollout_of(spec_of(), served, place / "builtin")
    for row, same in zip(text[0].rows, built_in.rows, strict=True):
        assert row.task == same.task and np.array_equal(row.tokens, same.tokens)
        assert np.array_equal(row.loss_mask, same.loss_mask) and row.stop == same.stop and row.reward == same.reward
        assert np.allclose(row.log_probs, same.log_probs, atol=1e-4)


def audited(run: Path, url: str) -> dict[str, Any]:
    app = typer.Typer()
    app.command()(guarded(command))
    result = CliRunner().invoke(app, [str(run), "--engine", url, "--rows", str(TRIALS), "--json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.output))


def test_an_audit_with_a_live_engine_tells_the_weights_that_sampled_from_others(
    text: tuple[RolloutResult, dict[str, tuple[int, ...]]], served: str, place: Path
) -> None:
    run = place / "runs" / "demo" / "attempt_1"
    (run / "rollouts").mkdir(parents=True)
    (run / "spec.resolved.yaml").write_text("rollout: {routing_replay: true, temperature: 1.0}\n")
    logged = {"time": 1.0, "rollout/step": 0, **text[0].metrics}
    (run / "metrics.jsonl").write_text(json.dumps(logged) + "\n")
    save_rows(run / "rollouts" / "rollout_000000.npz", text[0].rows)
    same = audited(run, served)
    assert same["clean"] and same["ledger"]["unaccounted"] == 0 and len(same["engine"]) == TRIALS
    # In fp32 the kernels of decoding and of scoring differ in the last bits.
    assert same["engine_gap"] < 1e-4
    with serving(None, torch.bfloat16) as url:
        coarse = audited(run, url)["engine_gap"]
    with serving(TinyMoE(read_config(SHIPPED), seed=5).state_dict(), torch.float32) as url:
        other = audited(run, url)
    assert same["engine_gap"] < coarse < 0.2, "the same weights in another number format"
    assert other["engine_gap"] > 1.0 and {gap["engine_version"] for gap in other["engine"]} == {"9"}
