"""How well given weights solve given tasks: real sandboxes, real verifiers, sampled at the spec's temperature."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from t1cli.embedded.inference import SHARED_STEP_SECONDS
from t1cli.embedded.server_process import RunningServer, inference_server
from t1cli.embedded.template import TinyChatTemplate
from t1cli.errors import T1Error
from t1cli.spec.engine import EmbeddedEngine
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.rollout.evaluate import EvaluationPlan, EvaluationResult, evaluate
from t1cli.terminal.rollout.from_spec import RunPlace, build_world
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.row import TrainingRow

_RETRIES = 5


@dataclass
class Bench:
    """A server and sandboxes that measure one set of weights after the other."""

    server: RunningServer
    world: TrialWorld
    _version: int = 0

    def check_rates(self, weights: Path, tasks: Sequence[Task], *, repeats: int, seed: int) -> dict[str, list[float]]:
        """Share of checks passed, per trial, by task name. Raises T1Error unless every scheduled trial was scored."""
        result = self._evaluate(weights, tasks, repeats, seed)
        _require_complete(result)
        return result.check_rates()

    def rows(self, weights: Path, tasks: Sequence[Task], *, repeats: int, seed: int) -> tuple[TrainingRow, ...]:
        """The training rows of the same trials; those that the infrastructure lost are left out."""
        trials = self._evaluate(weights, tasks, repeats, seed).trials
        return tuple(row for trial in trials for row in trial.rows)

    def _evaluate(self, weights: Path, tasks: Sequence[Task], repeats: int, seed: int) -> EvaluationResult:
        self._version += 1
        self.server.update_weights(weights, self._version)
        plan = EvaluationPlan(
            tag=f"v{self._version}", tasks=tuple(tasks), repeats=repeats, infrastructure_retries=_RETRIES
        )
        return evaluate(replace(self.world, seed=seed), plan)


@contextmanager
def open_bench(spec: ExperimentSpec, weights: Path) -> Iterator[Bench]:
    """A bench on this machine; everything it made is gone afterwards. The spec's sandbox must be local."""
    if not isinstance(spec.sandbox, LocalSandbox):
        raise T1Error("measuring needs `sandbox.kind: local`")
    options = _server_options(spec)
    with tempfile.TemporaryDirectory(prefix="t1-bench-") as scratch, inference_server(weights, *options) as server:
        provider = LocalProvider(spec.sandbox, Path(scratch) / "sandboxes")
        world = build_world(
            spec,
            provider=provider,
            template=TinyChatTemplate(),
            engine_url=server.url,
            place=RunPlace(owner="bench", run_name="bench", trials_dir=Path(scratch) / "trials"),
        )
        yield Bench(server, world)


def _server_options(spec: ExperimentSpec) -> tuple[str, ...]:
    """The campaign's server as a command line."""
    assert isinstance(spec.engine, EmbeddedEngine)
    return (
        *("--max-batch", str(spec.engine.max_batch), "--max-context", str(spec.rollout.context_tokens)),
        *("--dtype", spec.engine.router_dtype, "--router-noise", str(spec.engine.router_noise)),
        *("--threads", str(spec.engine.server_threads), "--seed", str(spec.seed)),
        *("--step-seconds", str(SHARED_STEP_SECONDS)),
    )


def mean_check_rate(rates: dict[str, list[float]]) -> float:
    """Mean over tasks of the mean over a task's trials."""
    return statistics.fmean(statistics.fmean(values) for values in rates.values())


def _require_complete(result: EvaluationResult) -> None:
    if result.complete:
        return
    lost = [trial.outcome for trial in result.trials if not trial.outcome.scored]
    first = f"{lost[0].boundary}/{lost[0].cause}: {lost[0].detail}" if lost else "unknown"
    raise T1Error(f"{len(lost)} of {result.scheduled} trials were lost to the infrastructure; first: {first}")
