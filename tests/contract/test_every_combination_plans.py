"""Whatever valid kinds and sizes are combined: a plan is an answer or a located refusal, soon, and strict JSON."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t1cli.errors import BadInput
from t1cli.plan.build import build_plan
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.fields import all_keys
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import experiment_names, experiments_dir
from t1cli.spec.yaml_limits import LARGEST_WHOLE
from t1cli.ui.plan_view import print_plan

EXAMPLES = int(os.environ.get("T1_COMBINATIONS", "60"))

KINDS: dict[str, Sequence[str]] = {
    "engine": ("{kind: slime}", "{kind: embedded}"),
    "sandbox": (
        "{kind: local, capacity: 4}",
        "{kind: pool, urls: [http://a], max_tasks: 8, max_runs_per_task: 4}",
        "{kind: pool, urls: [http://a, http://b], max_tasks: 1, max_runs_per_task: 1, routing: free_slots}",
        "{kind: pool, urls: [], max_tasks: 1, max_runs_per_task: 1}",
        "{kind: harbor, environment: x, capacity: 512}",
    ),
    "algorithm": (
        "{kind: ppo, actor_learning_rate: 1e-6, critic: {learning_rate: 5e-6}}",
        "{kind: ppo, lam: 0.0, actor_learning_rate: 1e-6, critic: {learning_rate: 5e-6, critic_only_steps: 99}}",
        "{kind: grpo, actor_learning_rate: 1e-6}",
        "{kind: grpo, actor_learning_rate: 1e-6, steps_per_rollout: 2, length_normalize: true}",
    ),
    "engine.rollout_loop": ("t1", "slime"),
    "rollout.unfinished": ("drop", "repeat", "continue"),
    "rollout.pipeline": ("sync", "one_step", "fully_async"),
    "rollout.max_staleness": ("0", "1", "8"),
    "rollout.samples_per_prompt": ("1", "8"),
    "rollout.summary": ("{kind: none}", "{kind: summarize, trigger_tokens: 100, max_new_tokens: 50}"),
    "reward": (
        "{kind: ctrf_count}",
        "{kind: ctrf_count, scale_per_batch: true, length: {kind: multiplicative}}",
        "{kind: pass_ratio, signed: true, length: {kind: additive, penalty_per_turn: 0.1}}",
        "{kind: binary, length: {kind: efficiency_bonus, bonus: 0.0, free_turns: 0}}",
    ),
    "trainer.recompute": ("{kind: none}", "{kind: selective}", "{kind: full, method: block, num_layers: 2000}"),
    "topology.colocated": ("true", "false"),
    "evaluation": ("null",),
    "hardware.gpus_per_node": ("0", "1", "8"),
    "topology.rollout_gpus": ("0", "1", "8", "64"),
    "checkpoint": ("{}",),
}
SIZES = ("0", "1", "2", "3", "8", "1000", "1000000", str(LARGEST_WHOLE), "1e-18", "0.5", "1e18")


def _numbers() -> tuple[str, ...]:
    """Every dotted key that holds a number."""
    found = {
        key
        for key, block in all_keys(ExperimentSpec)
        if re.search(r"\b(int|float)\b", str(block.model_fields[key.rpartition(".")[2]].annotation))
    }
    return tuple(sorted(found))


def _settings() -> st.SearchStrategy[list[str]]:
    kind = st.sampled_from(sorted(KINDS)).flatmap(
        lambda key: st.sampled_from(KINDS[key]).map(lambda value: f"{key}={value}")
    )
    number = st.tuples(st.sampled_from(NUMBERS), st.sampled_from(SIZES)).map("=".join)
    return st.tuples(st.lists(kind, max_size=8), st.lists(number, max_size=3)).map(lambda both: [*both[0], *both[1]])


NUMBERS = _numbers()


def test_the_numbers_are_found() -> None:
    assert {"rollout.batch_size", "algorithm.critic.learning_rate", "model.architecture.num_experts"} <= set(NUMBERS)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(experiment_names()), overrides=_settings())
def test_a_combination_is_planned_or_refused(name: str, overrides: list[str]) -> None:
    began = time.process_time()
    try:
        loaded = load_experiment(experiments_dir() / name, overrides)
    except BadInput as refused:
        assert all(problem.message and problem.where for problem in refused.diagnostics)
        return
    plan = build_plan(loaded, source=name)
    json.dumps(plan.to_json(), allow_nan=False)
    print_plan(plan, exit_code=0)
    assert time.process_time() - began < 5, "a plan takes seconds"
