"""From an experiment's blocks to what a rollout launches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.spec.sandbox import LocalSandbox, PoolSandbox
from t1cli.terminal.rollout.from_spec import RunPlace, build_world, rollout_plan, routing_shape, sandbox_capacity

QUICKSTART = Path(__file__).parents[4] / "experiments/quickstart/experiment.yaml"


def spec_with(*overrides: str) -> ExperimentSpec:
    return load_experiment(QUICKSTART, list(overrides)).spec


def test_a_rollout_launches_the_surplus_and_is_the_same_after_a_resume(doubles: SimpleNamespace) -> None:
    spec = spec_with("rollout.batch_size=16", "rollout.over_sampling_batch_size=20", "sandbox.capacity=8")
    tasks = [doubles.task_named(f"t{index}") for index in range(60)]
    plan = rollout_plan(spec, 3, tasks)
    assert len(plan.tasks) == 20 and plan.accept == 16 and plan.allow_short
    assert plan.refill_seconds == (3 + 1) * spec.rollout.trial_wall_seconds
    assert plan == rollout_plan(spec, 3, tasks) != rollout_plan(spec, 4, tasks)
    seen = [task.name for rollout_id in range(3) for task in rollout_plan(spec, rollout_id, tasks).tasks]
    assert sorted(seen) == sorted(task.name for task in tasks), "an epoch sees every task once"


@pytest.mark.parametrize(("replay", "wanted"), [("true", "required"), ("false", "kept")])
def test_replay_makes_routing_required(doubles: SimpleNamespace, tmp_path: Path, replay: str, wanted: str) -> None:
    spec = spec_with(f"rollout.routing_replay={replay}")
    place = RunPlace("owner", "run", tmp_path)
    worlds = [
        build_world(
            spec, provider=doubles.MemoryProvider(), template=doubles.ByteTemplate(), engine_url="http://x", place=place
        )
        for _ in range(2)
    ]
    assert worlds[0].routing == wanted and routing_shape(spec) is not None
    assert worlds[0].run_tag != worlds[1].run_tag, "a resumed run must not use a trial id twice"
    assert worlds[0].slots.capacity == sandbox_capacity(spec.sandbox)


def test_capacity_of_several_pool_servers_adds_up() -> None:
    pool = PoolSandbox(urls=("http://a", "http://b"), max_tasks=8, max_runs_per_task=4)
    assert sandbox_capacity(pool) == 64
    assert sandbox_capacity(LocalSandbox(capacity=5)) == 5
