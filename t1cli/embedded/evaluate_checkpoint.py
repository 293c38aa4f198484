"""The evaluation block on given weights, on this machine: real sandboxes, real verifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from t1cli.embedded.measure import open_bench
from t1cli.errors import BadInput
from t1cli.run.measured import Measured
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.harness.limits import evaluation_limits
from t1cli.terminal.rollout.evaluate import EvaluationPlan, evaluate
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.tasks.load import load_pool


def evaluate_checkpoint(spec: ExperimentSpec, weights: Path, *, on_line: Callable[[str], None]) -> Measured:
    """Every task × repeats of the evaluation block. `spec` has absolute paths. Raises BadInput without weights."""
    assert spec.evaluation is not None
    found = weights / "model.safetensors" if weights.is_dir() else weights
    if not found.is_file():
        raise BadInput(f"no weights of the embedded engine at {weights}", where=str(weights))
    # The server is started for the longest context that is asked of it.
    longest = max(spec.rollout.context_tokens, spec.evaluation.context_tokens)
    served = spec.model_copy(update={"rollout": spec.rollout.model_copy(update={"context_tokens": longest})})
    tasks = load_pool(Path(spec.evaluation.path))[: spec.evaluation.num_tasks]
    plan = EvaluationPlan("eval", tasks, spec.evaluation.repeats, spec.evaluation.infrastructure_retries)
    with open_bench(served, found) as bench:
        world = replace(bench.world, limits=evaluation_limits(spec.evaluation, spec.rollout))
        result = evaluate(world, plan, on_trial=lambda trial: on_line(_line(trial)))
    rewards = [trial.reward.value for trial in result.scored if trial.reward]
    return Measured(result.scheduled, result.solved(), rewards)


def _line(trial: TrialResult) -> str:
    if trial.reward is None:
        return f"{trial.plan.task.name}  lost: {trial.outcome.boundary}/{trial.outcome.cause}"
    return f"{trial.plan.task.name}  reward {trial.reward.value:.3f}"
