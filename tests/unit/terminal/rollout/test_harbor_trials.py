"""A rollout in Harbor environments: graded as anywhere else, and a killed worker is nobody's reward of 0."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.spec.load import load_experiment
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan
from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.sandbox.from_spec import sandbox_provider
from t1cli.terminal.sandbox.harbor.provider import HarborProvider
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.tasks.load import load_pool

ROOT = Path(__file__).parents[4]
HARBOR_PYTHON = os.environ.get("T1_HARBOR_PYTHON", "")

pytestmark = pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap: {bubblewrap_problem()}")


@pytest.mark.parametrize("which", ["double", "harbor"])
def test_trials_of_a_killed_worker_are_lost_and_run_again(
    doubles: SimpleNamespace, tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if which == "harbor" and not HARBOR_PYTHON:
        pytest.skip("T1_HARBOR_PYTHON names no interpreter with Harbor")
    if which == "double":
        monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/contract/harbor_double"))
    python = HARBOR_PYTHON if which == "harbor" else sys.executable
    kind = "t1cli.terminal.sandbox.harbor.bubblewrap:BubblewrapEnvironment"
    sandbox = f"{{kind: harbor, environment: '{kind}', python: {python}, capacity: 3, creation_per_second: 50}}"
    sets = ["rollout.batch_size=4", "rollout.context_tokens=4000", f"sandbox={sandbox}"]
    spec = load_experiment(ROOT / "experiments/quickstart/experiment.yaml", sets).spec
    pool = load_pool(ROOT / "experiments/quickstart/tasks")
    lines = {
        task.instruction: [line for line in (task.solution / "solve.sh").read_text().splitlines() if line[:1] != "#"]
        for task in pool
    }
    provider = sandbox_provider(spec.sandbox, tmp_path / "sandboxes")
    assert isinstance(provider, HarborProvider)
    killed: list[int] = []

    async def before(instruction: str, turn: int) -> None:
        if turn == 1 and not killed:
            worker = next(iter(provider._live.values())).identity.pid
            killed.append(worker)
            os.kill(worker, signal.SIGKILL)

    engine = doubles.ScriptedEngine(lambda instruction: lines[instruction][1:], before=before)

    @asynccontextmanager
    async def connect() -> AsyncIterator[object]:
        yield engine

    world = build_world(
        spec,
        provider=provider,
        template=doubles.ByteTemplate(),
        engine_url="http://unused",
        place=RunPlace("owner", "run", tmp_path / "trials"),
    )
    assert world.create_seconds > 600.0
    limits = doubles.replace(world.limits, max_new_tokens_per_turn=400)
    world = doubles.replace(world, connect=connect, limits=limits)
    plan = doubles.replace(rollout_plan(spec, 0, pool), first_backoff_seconds=0.01)

    async def whole() -> object:
        try:
            return await run_rollout(world, plan)
        finally:
            await provider.close()

    result = asyncio.run(whole())
    lost = [trial for trial in result.trials if not trial.outcome.scored]
    assert lost and killed
    assert {trial.outcome.boundary for trial in lost} <= {Boundary.SANDBOX, Boundary.PROVIDER}, lost
    assert all("worker" in trial.outcome.detail for trial in lost)
    assert len(result.accepted) == 4 and result.metrics["terminal/solved_rate"] == 1.0
    assert not [lease.name for lease in provider.book.leases() if not lease.closed]
